"""Queries to a mount on this machine."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker_api.node_caches.mount_places import FIGURES_SOCKET, MOUNT_SPEC
from stoker_api.node_caches.node_answer import MountFigures
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_cli.errors import CliError
from stoker_cli.local.local_mounts import LocalMount
from stoker_cli.main import main

SEEN = MountFigures(folder="/data", workloads=(NodeWorkload(pod="mount/data", phase="Training", epoch=3),))


@contextmanager
def mounted(runs: Path, answer: bytes) -> Iterator[Path]:
    """Answer one query to a mount at /data."""
    folder = runs / "one"
    folder.mkdir(parents=True)
    (folder / MOUNT_SPEC).write_text(json.dumps({"folder": "/data"}))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / FIGURES_SOCKET))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer + b"\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield runs
        thread.join(30)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "r"


def test_the_readers_of_a_mount_are_shown_as_workloads(runs: Path) -> None:
    with mounted(runs, json.dumps(SEEN.wire()).encode()):
        shown = CliRunner().invoke(main, ["top", "--mount", "/data", "--run-dir", str(runs), "-o", "json"])
    (row,) = json.loads(shown.output)
    assert {"node": "here", "pod": "/data", "phase": "Training", "epoch": 3}.items() <= row.items()


def test_an_unobserved_mount_is_an_error_with_the_reason(runs: Path) -> None:
    unseen = MountFigures(folder="/data", unseen="it was mounted without --observe, so its readers are not observed.")
    with mounted(runs, json.dumps(unseen.wire()).encode()):
        mount = LocalMount(Path("/data"), runs)
        figures = mount.figures()
    with pytest.raises(CliError, match="mounted without --observe"):
        mount.node_cache(figures)


@pytest.mark.parametrize("answer", [b"no", b"[]", b'{"error": "what?"}', b'{"folder": 7}', b"[" * 100_000])
def test_an_invalid_answer_of_a_mount_is_an_error(runs: Path, answer: bytes) -> None:
    with mounted(runs, answer), pytest.raises(CliError, match="The mount at /data"):
        LocalMount(Path("/data"), runs).figures()


def test_a_folder_without_a_mount_is_an_error(runs: Path) -> None:
    with pytest.raises(CliError, match="No stoker mount of this user at /nothing"):
        LocalMount(Path("/nothing"), runs)


def test_a_mount_without_processes_does_not_answer(runs: Path) -> None:
    folder = runs / "one"
    folder.mkdir(parents=True)
    (folder / MOUNT_SPEC).write_text(json.dumps({"folder": "/data"}))
    with pytest.raises(CliError, match="does not answer"):
        LocalMount(Path("/data"), runs).figures()


def test_explain_needs_a_file_a_pod_or_a_mount() -> None:
    shown = CliRunner().invoke(main, ["tuning", "explain"])
    assert shown.exit_code == 2
    assert "Name a FILE with a PATH, a POD, or a --mount." in shown.output

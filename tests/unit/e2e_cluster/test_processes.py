"""Running programs, and finding the processes of a cluster."""

from pathlib import Path

import pytest

from e2e.cluster.errors import CommandFailedError, NotReadyError
from e2e.cluster.processes import CLUSTER_MARK, COMPONENT_MARK, Owned, owned_by, run, wait_for


def pretend(proc: Path, pid: int, environment: dict[str, str], numbers: str) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    pairs = "\0".join(f"{name}={value}" for name, value in environment.items())
    (folder / "environ").write_bytes(pairs.encode() + b"\0")
    (folder / "status").write_text(f"Name:\tx\nNSpid:\t{numbers}\n")


def test_a_process_belongs_to_the_cluster_whose_whole_name_it_carries(tmp_path: Path) -> None:
    pretend(tmp_path, 7, {CLUSTER_MARK: "demo", COMPONENT_MARK: "etcd"}, "7")
    pretend(tmp_path, 8, {CLUSTER_MARK: "demo-2", COMPONENT_MARK: "etcd"}, "8")
    pretend(tmp_path, 9, {"HOME": "/"}, "9")
    assert owned_by("demo", tmp_path) == [Owned(7, "etcd", is_node_init=False)]


def test_a_nodes_init_is_the_first_process_of_an_inner_pid_namespace(tmp_path: Path) -> None:
    for pid, numbers in ((1, "1"), (20, "20\t1"), (21, "21\t14")):
        pretend(tmp_path, pid, {CLUSTER_MARK: "demo", COMPONENT_MARK: "node-1"}, numbers)
    assert [owned.pid for owned in owned_by("demo", tmp_path) if owned.is_node_init] == [20]


def test_a_failed_program_is_reported_with_its_words_code_and_output() -> None:
    with pytest.raises(CommandFailedError, match=r"(?s)sh -c echo why; exit 3` ended with code 3.*why"):
        run("sh", "-c", "echo why; exit 3")


def test_a_program_reads_bytes_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("from file")
    assert (run("cat", stdin=b"bytes"), run("cat", stdin=tmp_path / "f")) == ("bytes", "from file")


def test_a_wait_in_vain_ends_with_the_guilty_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("the reason")
    with pytest.raises(NotReadyError, match=r"(?s)Waited 0 s for it in vain.*the reason"):
        wait_for("it", lambda: False, 0, tmp_path / "log")


def test_a_wait_for_a_dead_process_ends_at_once() -> None:
    with pytest.raises(NotReadyError, match="the process ended"):
        wait_for("it", lambda: False, 3600, alive=lambda: False)

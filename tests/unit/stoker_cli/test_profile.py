"""What `stoker profile` takes, refuses and shows; its runs are tried on real mounts elsewhere."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stoker_api.nodecache import NodeCache
from stoker_cli import profile as command
from stoker_cli import profile_live
from stoker_cli.cluster import Target
from stoker_cli.errors import CliError
from stoker_cli.main import main
from stoker_cli.output import console
from stoker_cli.profile_picture import draw_profile
from stoker_cli.profile_result import Profile
from stoker_cli.profile_view import profile_view
from stoker_cli.profiled_command import ProfiledCommand, filled
from stoker_cli.profiled_mounts import GivenMount, fetch_rate, read_through
from stoker_tuning.profiling.epoch_split import EpochSplit, ProfiledRun, RunFigures
from stoker_tuning.profiling.predictions import InputPipeline

RESNET = {"pod": "vision/resnet-0", "uid": "u0", "job": "resnet", "itemsPerSecond": 1000, "stallPercent": 40}
ROWS: list[dict[str, Any]] = [
    {**RESNET, "readWaitPercent": 30},
    {"pod": "vision/new-0", "uid": "u1"},
    {"pod": "nlp/resnet-0", "uid": "u2", "itemsPerSecond": 10, "stallPercent": 0},
    {"pod": "vision/warm-0", "uid": "u3", "job": "warm", "itemsPerSecond": 500, "stallPercent": 20},
]
MOUNT = {"volumeId": "v", "datasetNamespace": "vision", "dataset": "d", "podUid": "u3", "mode": "native"}
TRAINING = """
import json, os, socket, sys
def say(**said):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.sendto(json.dumps(said).encode(), os.environ["STOKER_REPORT_SOCKET"])
for epoch in range(2):
    for batch in range(3):
        say(epoch=epoch, batch=batch, batch_size=8, wait_seconds=0.01, compute_seconds=0.02)
"""
FOUND = Profile(
    "s3://b/p",
    EpochSplit(30.0, 10.0, 5.0, 15.0),
    InputPipeline(10.0, 15.0, 30.0, 0.5, 3000.0, 4.0, 8.0, 2, 4),
    {ProfiledRun.CACHED: RunFigures(15.0, 5.0, 10.0), ProfiledRun.COLD: RunFigures(30.0, 20.0, 10.0)},
    notes=("[a note]",),
)


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    class KnownCluster:
        async def node_caches(self) -> list[NodeCache]:
            status = {"workloads": ROWS, "mounts": [MOUNT]}
            return [NodeCache.model_validate({"metadata": {"name": "node-1"}, "status": status})]

    @asynccontextmanager
    async def connect(_: Target) -> AsyncIterator[KnownCluster]:
        yield KnownCluster()

    async def no_time(_: float) -> None:
        return

    monkeypatch.setattr(command, "connect", connect)
    monkeypatch.setattr(profile_live, "pause", no_time)


def stoker(*words: str) -> Result:
    return CliRunner().invoke(main, ["profile", "-n", "vision", *words])


def live(*words: str) -> dict[str, Any]:
    result = stoker("-o", "json", *words)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def shares(found: dict[str, Any]) -> list[int]:
    return [round(100 * part / found["seconds"]) for part in found["parts"].values()]


@pytest.mark.parametrize("subject", ["resnet-0", "pod/resnet-0", "resnet", "job/resnet", "tj/resnet"])
def test_a_job_or_pod_is_split_by_what_its_node_says(subject: str) -> None:
    assert shares(live(subject)) == [60, 10, 30]


def test_the_stall_of_a_pod_whose_data_is_whole_is_preparation() -> None:
    assert shares(live("warm-0")) == [80, 20, 0]


def test_a_live_prediction_has_items_a_second() -> None:
    (warm,) = (one for one in live("resnet-0")["predictions"] if one["change"] == "data warm")
    assert warm["itemsPerSecond"] == pytest.approx(1000 / 0.7)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nobody",), 3, "No node knows of nobody"),
        (("new-0",), 1, "A program can tell it by itself"),
        (("dataset/x",), 1, "say POD, pod/NAME"),
        ((), 2, "say whom to look at"),
        (("s3://b/p",), 2, "add -- COMMAND"),
        (("resnet-0", "--", "true"), 2, "is no URL of data"),
        (("--", "true"), 2, "needs its data"),
        (("s3://b/p", "--runs", "warm", "--", "true"), 2, "of synthetic, cached, cold"),
        (("s3://b/p", "--runs", "cold", "--", "true"), 2, "cached is always one of them"),
        (("s3://b/p", "--runs", "synthetic,cached", "--", "true"), 2, "one needs the other"),
        (("resnet-0", "--for", "soon"), 2, "--for"),
        (("resnet-0", "--for", "0s"), 2, "say how long"),
    ],
)
def test_what_is_wrong_is_refused_with_what_to_do(words: tuple[str, ...], code: int, said: str) -> None:
    result = stoker(*words)
    assert (result.exit_code, said in result.output) == (code, True), result.output


def test_help_names_the_command_behind_dashes() -> None:
    assert "[-- COMMAND...]" in stoker("--help").output.splitlines()[0]


def test_a_command_is_given_its_data() -> None:
    assert filled(["train", "--data={data}", "x"], Path("/d")) == ["train", "--data=/d", "x"]


def test_a_command_that_reports_is_measured_by_its_first_epoch(tmp_path: Path) -> None:
    found = ProfiledCommand([sys.executable, "-c", TRAINING], {}).run(tmp_path)
    assert found.items == 24
    assert [found.waited, found.computed] == pytest.approx([0.03, 0.06])


def test_a_command_that_reports_nothing_is_measured_by_its_duration(tmp_path: Path) -> None:
    found = ProfiledCommand([sys.executable, "-c", ""], {}).run(tmp_path)
    assert not found.reported
    assert found.seconds > 0


def test_a_command_is_ended_after_its_first_epoch_where_that_is_asked_for(tmp_path: Path) -> None:
    program = TRAINING + "\nimport time\ntime.sleep(600)"
    assert ProfiledCommand([sys.executable, "-c", program], {}, first_epoch=True).run(tmp_path).items == 24


def test_a_line_that_does_not_count_is_told(tmp_path: Path) -> None:
    made = ProfiledCommand([sys.executable, "-c", TRAINING.replace("batch_size=8", "batch_size=0")], {})
    made.run(tmp_path)
    assert "'batch_size'" in made.refused


@pytest.mark.parametrize(
    ("words", "said"),
    [(["false"], "ended with exit code 1"), (["/nowhere/to/be/found"], "cannot be run: No such file or directory")],
)
def test_a_command_that_fails_is_told(words: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(CliError, match=said):
        ProfiledCommand(words, {}).run(tmp_path)


def test_a_bandwidth_is_that_of_the_time_in_which_most_came() -> None:
    told = [
        (at, {"stage": "mounted", "bytes": 100, "warmBytes": warm}) for at, warm in ((1.0, 10), (3.0, 60), (4.0, 100))
    ]
    assert fetch_rate(told) == 30.0


def test_no_bandwidth_is_told_where_nothing_was_fetched() -> None:
    assert fetch_rate([(1.0, {"stage": "listing"})]) is None


def test_reading_through_counts_all_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("x", "a/y"):
        (tmp_path / name).write_bytes(b"12345")
    assert read_through(tmp_path) == (2, 10)


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="There are no files"):
        read_through(tmp_path)


def test_pages_of_a_mount_in_use_are_dropped_only_where_that_was_said(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="--drop-pages"):
        GivenMount(tmp_path, [], drop=False).cold()


def test_the_terminal_shows_parts_predictions_ratios_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(profile_view(FOUND))
    shown = capsys.readouterr().out
    assert "preparation  5.00     17 %" in shown
    assert "+0.0 % off the epoch" in shown
    assert "cold, order known  15.00" in shown
    assert "25 %, 50 %, 75 %, 100 %" in shown
    assert "[a note]" in shown


def test_parts_that_nothing_checks_are_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(profile_view(replace(FOUND, runs={})))
    assert "shares of the time in which it was looked at" in capsys.readouterr().out


def test_json_has_the_same_figures() -> None:
    wire = json.loads(json.dumps(FOUND.wire()))
    assert wire["parts"] == {"compute": 10.0, "preparation": 5.0, "fetch": 15.0}
    assert [point["epochsToAll"] for point in wire["quality"]] == [4, 2, 2, 1]


def test_a_picture_is_a_png(tmp_path: Path) -> None:
    draw_profile(FOUND, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    result = stoker(f"file://{tmp_path}", "--png", f"{tmp_path}/none/p.png", "--", "true")
    assert (result.exit_code, f"there is no folder {tmp_path}/none" in result.output) == (1, True)
    assert "fetching" not in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--", "/nowhere/to/be/found"], "/nowhere/to/be/found cannot be run: there is no such program"),
        (["--synthetic", "nowhere", "--", "true"], "nowhere cannot be run"),
        (["--synthetic", "'open", "--", "true"], "--synthetic is no command line"),
    ],
)
def test_a_command_that_is_not_there_is_refused_before_anything_is_fetched(
    words: list[str], said: str, tmp_path: Path
) -> None:
    result = stoker(f"file://{tmp_path}", *words)
    assert (result.exit_code, said in result.output) == (1, True), result.output
    assert "fetching" not in result.output


def test_a_picture_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = stoker("resnet-0", "--png", "p.png")
    assert (result.exit_code, "stoker[plot]" in result.output) == (1, True)

"""The command `stoker profile`. Integration tests cover its runs on real mounts."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli.errors import CliError
from stoker_cli.main import main
from stoker_cli.output import console
from stoker_cli.profile import command as command
from stoker_cli.profile import live as profile_live
from stoker_cli.profile.profiled_command import ProfiledCommand, filled
from stoker_cli.profile.profiled_mounts import ExistingMount, fetch_rate, read_through
from stoker_cli.profile.result import Profile
from stoker_cli.profile.view import draw_profile, profile_view
from stoker_tuning.profiling.epoch_split import EpochSplit, ProfiledRun, RunFigures
from stoker_tuning.profiling.predictions import InputPipeline
from tests.support.cases import cases
from tests.unit.stoker_cli.builders import connect_to, node_cache

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
        async def workload_caches(self, namespace: str) -> list[NodeCache]:
            status = {"workloads": ROWS, "mounts": [MOUNT]}
            return [node_cache("node-1", **status)]

    async def no_time(_: float) -> None:
        return

    connect_to(monkeypatch, KnownCluster(), command)
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
def test_a_job_or_pod_is_split_by_the_figures_of_its_node(subject: str) -> None:
    assert shares(live(subject)) == [60, 10, 30]


def test_the_stall_of_a_pod_with_complete_data_is_preparation() -> None:
    assert shares(live("warm-0")) == [80, 20, 0]


def test_a_live_prediction_has_items_per_second() -> None:
    (warm,) = (one for one in live("resnet-0")["predictions"] if one["change"] == "data warm")
    assert warm["itemsPerSecond"] == pytest.approx(1000 / 0.7)


@cases(
    "words, code, said",
    (("nobody",), 3, "No node reports nobody"),
    (("new-0",), 1, "let the program report its waits"),
    (("dataset/x",), 1, "Use POD, pod/NAME"),
    ((), 2, "Use one of POD"),
    (("s3://b/p",), 2, "Add -- COMMAND"),
    (("resnet-0", "--", "true"), 2, "is not a data URL"),
    (("--", "true"), 2, "COMMAND needs either"),
    (("s3://b/p", "--runs", "warm", "--", "true"), 2, "use synthetic, cached or cold"),
    (("s3://b/p", "--runs", "cold", "--", "true"), 2, "cached is missing"),
    (("s3://b/p", "--runs", "synthetic,cached", "--", "true"), 2, "need each other"),
    (("resnet-0", "--for", "soon"), 2, "--for"),
    (("resnet-0", "--for", "0s"), 2, "must be positive"),
)
def test_wrong_usage_is_an_error_with_the_remedy(words: tuple[str, ...], code: int, said: str) -> None:
    result = stoker(*words)
    assert (result.exit_code, said in result.output) == (code, True), result.output


def test_help_shows_the_command_after_dashes() -> None:
    assert "[-- COMMAND...]" in stoker("--help").output.splitlines()[0]


def test_a_command_gets_its_data_folder() -> None:
    assert filled(["train", "--data={data}", "x"], Path("/d")) == ["train", "--data=/d", "x"]


def test_a_command_that_reports_is_measured_by_its_first_epoch(tmp_path: Path) -> None:
    found = ProfiledCommand([sys.executable, "-c", TRAINING], {}).run(tmp_path)
    assert found.items == 24
    assert [found.waited, found.computed] == pytest.approx([0.03, 0.06])


def test_a_command_that_reports_nothing_is_measured_by_its_duration(tmp_path: Path) -> None:
    found = ProfiledCommand([sys.executable, "-c", ""], {}).run(tmp_path)
    assert not found.reported
    assert found.seconds > 0


def test_with_first_epoch_a_command_ends_after_it(tmp_path: Path) -> None:
    program = TRAINING + "\nimport time\ntime.sleep(600)"
    assert ProfiledCommand([sys.executable, "-c", program], {}, first_epoch=True).run(tmp_path).items == 24


def test_an_invalid_report_is_a_note(tmp_path: Path) -> None:
    made = ProfiledCommand([sys.executable, "-c", TRAINING.replace("batch_size=8", "batch_size=0")], {})
    made.run(tmp_path)
    assert "'batch_size'" in made.refused


@cases(
    "words, said",
    (["false"], "failed with exit code 1"),
    (["/nowhere/to/be/found"], "Cannot run /nowhere/to/be/found: No such file or directory"),
)
def test_a_failed_command_is_an_error(words: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(CliError, match=said):
        ProfiledCommand(words, {}).run(tmp_path)


def test_the_fetch_rate_is_that_of_the_span_with_most_bytes() -> None:
    told = [
        (at, {"stage": "mounted", "bytes": 100, "warmBytes": warm}) for at, warm in ((1.0, 10), (3.0, 60), (4.0, 100))
    ]
    assert fetch_rate(told) == 30.0


def test_without_fetched_bytes_there_is_no_fetch_rate() -> None:
    assert fetch_rate([(1.0, {"stage": "listing"})]) is None


def test_reading_through_counts_all_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("x", "a/y"):
        (tmp_path / name).write_bytes(b"12345")
    assert read_through(tmp_path) == (2, 10)


def test_a_folder_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="No files in"):
        read_through(tmp_path)


def test_pages_of_an_existing_mount_are_dropped_only_with_drop_pages(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="--drop-pages"):
        ExistingMount(tmp_path, [], drop=False).cold()


def test_the_terminal_shows_parts_predictions_ratios_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(profile_view(FOUND))
    shown = capsys.readouterr().out
    assert "preparation  5.00     17 %" in shown
    assert "+0.0 % off the epoch" in shown
    assert "cold, order known  15.00" in shown
    assert "25 %, 50 %, 75 %, 100 %" in shown
    assert "[a note]" in shown


def test_live_parts_are_marked_as_shares_of_the_observed_time(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(profile_view(replace(FOUND, runs={})))
    assert "shares of the observed time" in capsys.readouterr().out


def test_json_has_the_same_figures() -> None:
    wire = json.loads(json.dumps(FOUND.wire()))
    assert wire["parts"] == {"compute": 10.0, "preparation": 5.0, "fetch": 15.0}
    assert [point["epochsToAll"] for point in wire["quality"]] == [4, 2, 2, 1]


def test_a_picture_is_a_png(tmp_path: Path) -> None:
    draw_profile(FOUND, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_an_unwritable_picture_is_an_error_before_the_measurement(tmp_path: Path) -> None:
    result = stoker(f"file://{tmp_path}", "--png", f"{tmp_path}/none/p.png", "--", "true")
    assert (result.exit_code, f"the folder {tmp_path}/none does not exist" in result.output) == (1, True)
    assert "fetching" not in result.output


@cases(
    "words, said",
    (["--", "/nowhere/to/be/found"], "Cannot run /nowhere/to/be/found: program not found"),
    (["--synthetic", "nowhere", "--", "true"], "Cannot run nowhere"),
    (["--synthetic", "'open", "--", "true"], "--synthetic is not a valid command line"),
)
def test_a_missing_program_is_an_error_before_data_is_fetched(words: list[str], said: str, tmp_path: Path) -> None:
    result = stoker(f"file://{tmp_path}", *words)
    assert (result.exit_code, said in result.output) == (1, True), result.output
    assert "fetching" not in result.output


def test_a_picture_without_matplotlib_is_an_error_with_the_command_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = stoker("resnet-0", "--png", "p.png")
    assert (result.exit_code, "stoker[plot]" in result.output) == (1, True)

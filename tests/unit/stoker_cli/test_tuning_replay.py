"""The command `stoker tuning replay` and its accuracy on recorded traces."""

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker_cli.tuning.replay import NOTICED_WITHIN, ReplayVerdict, replay, verdicts
from stoker_cli.tuning.replayed import replay_command
from stoker_cli.tuning.trace import FORMAT, Trace, read_trace
from stoker_tuning.training.accesses import AccessSampling, SamplingMethod, SeenAccess
from stoker_tuning.training.patterns import WINDOW
from tests.unit.stoker_tuning.training.simulation import shuffled

TRACES = Path(__file__).parent / "traces"
# Recorded traces of real programs; each is less than 100 KiB.
RECORDED = {
    (path.name.removesuffix(".jsonl.gz"), name): verdict
    for path in sorted(TRACES.glob("*.jsonl.gz"))
    for name, verdict in verdicts(replay(read_trace(path), WINDOW)).items()
}


@pytest.mark.parametrize(("scenario", "workload"), RECORDED)
def test_phases_of_real_training_are_right_nearly_all_the_time(scenario: str, workload: str) -> None:
    assert RECORDED[scenario, workload].phases >= 0.95


@pytest.mark.parametrize(("scenario", "workload"), RECORDED)
def test_epochs_of_real_training_are_right_nearly_all_the_time(scenario: str, workload: str) -> None:
    assert RECORDED[scenario, workload].epochs >= 0.95


@pytest.mark.parametrize(("scenario", "workload"), RECORDED)
def test_every_change_of_real_training_is_noticed_soon(scenario: str, workload: str) -> None:
    verdict = RECORDED[scenario, workload]
    assert verdict.missed == 0
    assert verdict.longest_delay <= NOTICED_WITHIN


def test_all_scenarios_were_recorded() -> None:
    assert {scenario for scenario, _ in RECORDED} == {"imagefolder", "inference", "sweep", "tensorflow"}


def test_recorded_traces_are_small() -> None:
    assert max(path.stat().st_size for path in TRACES.iterdir()) < 100 * 1024


# An epoch is noticed after some 20 files that were seen, which are 100 of 720 where a fifth is seen.
@pytest.mark.parametrize(("share", "epochs"), [(0.5, 0.93), (0.2, 0.85)])
def test_a_sample_of_the_accesses_still_tells_the_phases(share: float, epochs: float) -> None:
    noise = random.Random(2)
    trace = read_trace(TRACES / "imagefolder.jsonl.gz")
    seen = [row for row in trace.events if not isinstance(row[1], SeenAccess) or noise.random() < share]
    sampled = Trace(trace.layout, AccessSampling(SamplingMethod.TIME, share), seen)
    verdict = verdicts(replay(sampled, WINDOW))["run-0"]
    assert verdict.phases >= 0.95
    assert verdict.epochs >= epochs
    assert verdict.missed == 0


def written(folder: Path) -> Path:
    """Write a trace of 100 shuffled training files and 50 validation files, with the truth."""
    files = [f"train/{number}.jpg" for number in range(100)] + [f"val/{number}.jpg" for number in range(50)]
    header = {"trace": FORMAT, "files": [[name, 1000] for name in files]}
    truth = [(0.0, "Training"), (10.0, "Validation"), (15.0, None)]
    lines: list[dict[str, object]] = [
        {"t": index / 10, "f": file} for index, file in enumerate([*shuffled(range(100), 1), *range(100, 150)])
    ]
    lines += [{"t": seconds, "truth": {"phase": phase, "epoch": 0}} for seconds, phase in truth]
    path = folder / "trace.jsonl"
    rows = [header, *sorted(lines, key=lambda line: (float(str(line["t"])), "f" in line))]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_line_is_shown_for_each_change(tmp_path: Path) -> None:
    done = CliRunner().invoke(replay_command, [str(written(tmp_path))])
    assert done.exit_code == 0, done.output
    shown = [line.split()[2] for line in done.output.splitlines() if line[0].isdigit()]
    assert shown == ["Unknown", "Training", "Validation", "Validation"]


def test_the_truth_is_compared(tmp_path: Path) -> None:
    done = CliRunner().invoke(replay_command, [str(written(tmp_path)), "-o", "json"])
    truth = json.loads(done.output)["truth"]["workload"]
    assert truth["phases"] > 0.8
    assert 0 < truth["longestDelaySeconds"] < 2
    assert truth["missed"] == 0


def test_a_phase_that_was_never_right_is_missed(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace('"Validation"', '"Inference"'))
    verdict: ReplayVerdict = verdicts(replay(read_trace(path), WINDOW))["workload"]
    assert verdict.missed == 1
    assert verdict.phases < 0.7


def test_a_file_that_is_not_a_trace_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "no.txt"
    path.write_text("hello\n")
    done = CliRunner().invoke(replay_command, [str(path)])
    assert (done.exit_code, "line 1" in done.output) == (1, True)

"""Traces of real training with the truth that its code logs: `python -m bench.truth SCENARIO OUT.jsonl.gz`.

Runs the scenario's programs over a folder of small images, or of a model, with every open seen by fanotify, and writes
what `stoker tuning replay` reads. Needs root and what tools/install-clients.sh brings. TensorFlow is not among it: make
an environment with tensorflow-cpu, and name its interpreter by ``--python``.
"""

import argparse
import gzip
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.errors import BenchError
from bench.truth import content
from bench.truth.fanotify import FileEvent, Watch
from bench.truth.programs import DEBIANS_PYTHON, FOLDER, OUR_PYTHON
from bench.truth.recording import accesses, saves, trace_lines

_SECONDS = 600.0
_SWEEP = 4


@dataclass(frozen=True)
class Scenario:
    """Programs that run at the same time over one folder.

    ``arguments``: of each, behind its three folders. ``python``: that has their libraries.
    """

    program: str
    fill: Callable[[Path, random.Random], None]
    arguments: Sequence[Sequence[str]] = ((),)
    python: Path = DEBIANS_PYTHON


SCENARIOS = {
    "imagefolder": Scenario("imagefolder.py", content.images),
    "inference": Scenario("inference.py", content.model),
    "jax": Scenario("jax_loop.py", content.images, python=OUR_PYTHON),
    "sweep": Scenario("imagefolder.py", content.images, [("HyperparamTuning", str(seed)) for seed in range(_SWEEP)]),
    "tensorflow": Scenario("tfdata.py", content.images),
}


@dataclass(frozen=True)
class Run:
    """One program of a scenario: where it saves, what it logs, and its process."""

    name: str
    checkpoints: Path
    truth: Path
    process: "subprocess.Popen[bytes]"


def record(scenario: Scenario, out: Path) -> None:
    """Run a scenario and write its trace. Raises BenchError when a program fails."""
    with tempfile.TemporaryDirectory(prefix="stoker-truth-") as temporary:
        folder = Path(temporary)
        data = folder / "data"
        scenario.fill(data, random.Random(5))
        saved = [folder / f"run-{number}" for number in range(len(scenario.arguments))]
        for path in saved:
            path.mkdir()
        with Watch([data, *(path for path in data.rglob("*") if path.is_dir()), *saved]) as watch:
            runs = [_start(scenario, data, path, words) for path, words in zip(saved, scenario.arguments, strict=True)]
            _wait(runs)
        lines = "\n".join(_lines(data, runs, watch.events))
        out.write_bytes(gzip.compress(lines.encode(), mtime=0))


def _start(scenario: Scenario, data: Path, saved: Path, words: Iterable[str]) -> Run:
    truth = saved / "truth"
    command = [str(scenario.python), str(FOLDER / scenario.program), str(data), str(saved), str(truth), *words]
    return Run(saved.name, saved, truth, subprocess.Popen(command, start_new_session=True))


def _wait(runs: Iterable[Run]) -> None:
    failed = [run.name for run in runs if run.process.wait(_SECONDS)]
    if failed:
        raise BenchError(f"failed: {', '.join(failed)}; their errors are above")


def _lines(data: Path, runs: Sequence[Run], events: Sequence[FileEvent]) -> Iterable[str]:
    paths = sorted(path for path in data.rglob("*") if path.is_file())
    files = [(str(path.relative_to(data)), path.stat().st_size) for path in paths]
    sessions = {run.process.pid: run.name for run in runs}
    seen = accesses(events, sessions, {path: number for number, path in enumerate(paths)})
    saving = saves(events, {run.checkpoints: run.name for run in runs})
    truth = {run.name: run.truth.read_text(encoding="utf-8").splitlines() for run in runs}
    return trace_lines(files, truth, [*seen, *saving])


def main() -> None:
    """Record the scenario that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench.truth", description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", type=Path, help="interpreter for the programs, in place of the usual one")
    arguments = parser.parse_args()
    scenario = SCENARIOS[arguments.scenario]
    record(replace(scenario, python=arguments.python or scenario.python), arguments.out)


if __name__ == "__main__":
    main()

"""Every check in stages, as `make test` runs them: one summary at the end, exit code 1 when anything failed.

``python -m tests.run [STAGE...]`` runs only the named stages: lint unit contract model integration e2e. A run of all
stages also measures which lines the unit tests reach, and prints the sum and the files that they reach least.

Stories of e2e wait for real programs most of their time, so they run beside the stages after unit, and their output is
printed when both are over.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

from tests.support.coverage_table import lines

ROOT = Path(__file__).resolve().parents[1]
OTHERS_RUN = "STOKER_OTHERS_RUN"  # names a file that is there while other stages run beside one, for what it times
BIN = Path(sys.executable).parent
LINT = (
    (str(BIN / "ruff"), "check", "."),
    (str(BIN / "ruff"), "format", "--check", "."),
    (str(BIN / "mypy"),),
    (str(BIN / "lint-imports"),),
)
# Stage -> arguments of pytest. A whole e2e story may wait for several pods, so its limit is larger.
PYTEST: dict[str, tuple[str, ...]] = {
    "unit": ("tests/unit", "tests/repo", "-n", "2"),
    "contract": ("tests/contract",),
    # What fails is made smaller first, which takes minutes: a limit that ends that hides what failed.
    "model": ("tests/model", "-n", "2", "-o", "timeout=900"),
    # By file: what a module shares, such as a node or an API server's objects, is made once. Three on two cores, as
    # two use half of them: real programs keep their own pace. tests/integration/conftest.py orders the files.
    "integration": ("tests/integration", "-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"),
    "e2e": ("e2e/stories", "-o", "timeout=900", "-x" if os.environ.get("STOKER_E2E_FAIL_FAST") else "-v"),
}
STAGES = ("lint", *PYTEST)
ALONE = ("lint", "unit")  # both cores are theirs, and what they find is soon known
BESIDE = "e2e"  # alone it takes half of the machine: all stages one after the other were 45 minutes
OF_STORIES = ("jobset", "kueue")  # programs that stories need beside the cluster's own
# Programs of the cluster that integration tests use as well.
OF_INTEGRATION = ("kube-apiserver", "kubectl", "helm", "versitygw", "csi-sanity", "kube-score", "kubesec")


@dataclass(frozen=True)
class Result:
    """Counts and seconds of one stage."""

    stage: str
    passed: int
    failed: int
    skipped: int
    seconds: float


def run_lint() -> tuple[int, int, int]:
    """Run every linter, even after one failed, so that one run shows everything; at once, as each uses one core."""

    def lint(command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    failed = 0
    with ThreadPoolExecutor(len(LINT)) as pool:
        for command, done in zip(LINT, pool.map(lint, LINT), strict=True):
            print(f"$ {Path(command[0]).name} {' '.join(command[1:])}\n{done.stdout}", end="", flush=True)
            failed += done.returncode != 0
    return len(LINT) - failed, failed, 0


def counts(report: Path, exit_code: int) -> tuple[int, int, int]:
    """Count passed, failed and skipped in a JUnit report; a run that died without one counts as one failure."""
    if not report.exists():
        return 0, 1, 0
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    total, bad, skipped = (
        sum(int(suite.get(key, "0")) for suite in suites for key in keys)
        for keys in (("tests",), ("failures", "errors"), ("skipped",))
    )
    # A crash of pytest itself leaves a report that looks clean.
    return total - bad - skipped, max(bad, int(exit_code != 0)), skipped


def run_pytest(stage: str, measured: bool, output: IO[str] | None) -> tuple[int, int, int]:
    """Run one stage's tests; in CI a skipped test is a failed one, since everything that it needs can be installed."""
    with tempfile.TemporaryDirectory() as folder:
        report, coverage = Path(folder) / "report.xml", Path(folder) / "coverage.json"
        options = [f"--junitxml={report}", *(("--cov", f"--cov-report=json:{coverage}") if measured else ())]
        command = [sys.executable, "-m", "pytest", "-q", *options, *PYTEST[stage]]
        environment = {**os.environ, "COVERAGE_FILE": str(Path(folder) / "coverage")}
        code = subprocess.run(
            command, cwd=ROOT, env=environment, check=False, stdout=output, stderr=output and subprocess.STDOUT
        ).returncode
        passed, failed, skipped = counts(report, code)
        if coverage.exists():
            print("\n".join(lines(json.loads(coverage.read_text()))), flush=True)
    return (passed, failed + skipped, 0) if os.environ.get("CI") else (passed, failed, skipped)


def run_stage(stage: str, measured: bool = False, output: IO[str] | None = None) -> Result:
    """Run one stage by its name; without ``output`` it writes where this process does."""
    print(f"\n=== {stage} ===", file=output, flush=True)
    start = time.monotonic()
    passed, failed, skipped = run_lint() if stage == "lint" else run_pytest(stage, measured, output)
    return Result(stage, passed, failed, skipped, time.monotonic() - start)


def run_beside(stage: str, others: Sequence[str], run: Callable[[str, IO[str] | None], Result]) -> list[Result]:
    """Run one stage beside the others, which run one after the other, and print what it wrote at the end."""
    with (
        ThreadPoolExecutor(1) as beside,
        tempfile.TemporaryFile("w+", encoding="utf-8") as output,
        tempfile.NamedTemporaryFile() as others_run,
    ):
        print(f"\n{stage} runs beside {', '.join(others)}: its output comes after theirs", flush=True)
        os.environ[OTHERS_RUN] = others_run.name
        running = beside.submit(run, stage, output)
        results = [run(other, None) for other in others]
        others_run.close()
        results.append(running.result())
        output.seek(0)
        print(output.read(), flush=True)
    return results


class ClusterBuild:
    """Builds the e2e cluster's parts beside the other stages: the first time takes minutes."""

    def __init__(self) -> None:
        self._log = Path(tempfile.gettempdir()) / "stoker-cluster-build.log"
        self._log.unlink(missing_ok=True)
        print(f"building the test cluster's parts in the background (log: {self._log})", flush=True)
        self._first = self._start("-m", "e2e.cluster", "build", *OF_INTEGRATION)
        self._rest: list[subprocess.Popen[bytes]] = []
        self._asked = threading.Lock()  # two stages may wait at the same time

    def wait_for(self, stage: str) -> None:
        """Wait for what a stage needs; what only stories need is built beside the tests that need less."""
        if stage not in ("integration", "e2e"):
            return
        with self._asked:
            self._first.wait()
            if not self._rest:
                build = ("-m", "e2e.cluster", "build")
                commands = (build, (*build, *OF_STORIES), ("-m", "e2e.support.built"))
                self._rest = [self._start(*command, niceness=19) for command in commands]
        if stage == "e2e":
            for process in self._rest:
                process.wait()

    def _start(self, *words: str, niceness: int = 0) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as output:
            command = ["nice", "-n", str(niceness), sys.executable, *words]
            return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)


def main(chosen: list[str]) -> int:
    """Run the stages and print the summary. Returns the exit code."""
    unknown = set(chosen) - set(STAGES)
    if unknown:
        print(f"unknown stages {sorted(unknown)}: choose from {', '.join(STAGES)}", file=sys.stderr)
        return 2
    stages = [stage for stage in STAGES if stage in (chosen or STAGES)]
    build = ClusterBuild() if {"integration", "e2e"} & set(stages) else None

    def run(stage: str, output: IO[str] | None = None) -> Result:
        if build:
            build.wait_for(stage)
        return run_stage(stage, measured=not chosen and stage == "unit", output=output)

    alone = [stage for stage in stages if stage in ALONE]
    others = [stage for stage in stages if stage not in (*ALONE, BESIDE)]
    results = [run(stage) for stage in alone]
    results += run_beside(BESIDE, others, run) if BESIDE in stages and others else map(run, stages[len(alone) :])
    print(f"\n{'stage':<14}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for result in results:
        print(f"{result.stage:<14}{result.passed:>8}{result.failed:>8}{result.skipped:>9}{result.seconds:>9.0f}")
    failed = sum(result.failed for result in results)
    print(f"\n{sum(r.passed for r in results)} passed, {failed} failed, {sum(r.skipped for r in results)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

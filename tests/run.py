"""Every check in stages, as `make test` runs them: one summary at the end, and exit code 1 after any failure.

``python -m tests.run [STAGE...]`` runs only the named stages: lint unit contract model integration e2e.

Stories of e2e mostly wait for real programs, so they run in parallel with the stages after unit. Hostile stories, which
measure times, wait for the end of those. The output of stories is printed when both are done.
"""

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

ROOT = Path(__file__).resolve().parents[1]
OTHERS_RUN = "STOKER_OTHERS_RUN"  # names a file that exists while stages run in parallel with one that measures times
BIN = Path(sys.executable).parent
LINT = (
    (str(BIN / "ruff"), "check", "."),
    (str(BIN / "ruff"), "format", "--check", "."),
    (str(BIN / "mypy"),),
    (str(BIN / "lint-imports"),),
)
BY_FILE = ("--dist", "loadfile")
# Stage -> arguments of pytest. A whole e2e story may wait for several pods, so its limit is larger.
PYTEST: dict[str, tuple[str, ...]] = {
    "unit": ("tests/unit", "tests/repo", "-n", "2"),
    "contract": ("tests/contract", "-n", "2", *BY_FILE, "-o", "timeout=300"),
    # hypothesis shrinks a failure first, which takes minutes. A timeout in that time hides the failure.
    "model": ("tests/model", "-n", "2", "-o", "timeout=900"),
    # By file: shared objects of a module, such as a node or an API server's objects, are made once. Three workers on
    # two cores, as two use half of them: real programs have their own pace. tests/integration/conftest.py orders the
    # files. Next to the stories a test may take twice as long.
    "integration": ("tests/integration", "-n", "3", *BY_FILE, "--no-loadscope-reorder", "-o", "timeout=300"),
    "e2e": ("e2e/stories", "-o", "timeout=1800", "-x" if os.environ.get("STOKER_E2E_FAIL_FAST") else "-v"),
}
STAGES = ("lint", *PYTEST)
ALONE = ("lint", "unit")  # both cores are theirs, and their findings are known soon
BESIDE = "e2e"  # alone it uses half of the machine: all stages in sequence took 45 minutes
NICENESS = 10  # of builds next to it
OF_STORIES = ("jobset", "kueue")  # programs for late stories, in addition to the cluster's own
CLUSTER = ("-m", "e2e.cluster", "build")
IMAGES = ("-m", "e2e.support.built")
# Programs of the cluster that integration tests use as well.
OF_INTEGRATION = ("kube-apiserver", "kubectl", "helm", "versitygw", "csi-sanity", "kube-score", "kubesec", "crane")


@dataclass(frozen=True)
class Result:
    """Counts and seconds of one stage."""

    stage: str
    passed: int
    failed: int
    skipped: int
    seconds: float


def run_lint() -> tuple[int, int, int]:
    """Run every linter in parallel, as each uses one core. Continue after a failure, so that one run shows all."""

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
    """Count passed, failed and skipped in a JUnit report. A run without a report counts as one failure."""
    if not report.exists():
        return 0, 1, 0
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    total, bad, skipped = (
        sum(int(suite.get(key, "0")) for suite in suites for key in keys)
        for keys in (("tests",), ("failures", "errors"), ("skipped",))
    )
    # A crash of pytest itself leaves a report without failures.
    return total - bad - skipped, max(bad, int(exit_code != 0)), skipped


def run_pytest(stage: str, output: IO[str] | None) -> tuple[int, int, int]:
    """Run one stage's tests. In CI a skipped test is a failed one, because all its requirements can be installed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *PYTEST[stage]]
        code = subprocess.run(
            command, cwd=ROOT, check=False, stdout=output, stderr=output and subprocess.STDOUT
        ).returncode
        passed, failed, skipped = counts(report, code)
    return (passed, failed + skipped, 0) if os.environ.get("CI") else (passed, failed, skipped)


def run_stage(stage: str, output: IO[str] | None = None) -> Result:
    """Run one stage by its name. Without ``output``, it writes to this process's output."""
    print(f"\n=== {stage} ===", file=output, flush=True)
    start = time.monotonic()
    passed, failed, skipped = run_lint() if stage == "lint" else run_pytest(stage, output)
    return Result(stage, passed, failed, skipped, time.monotonic() - start)


def run_beside(stage: str, others: Sequence[str], run: Callable[[str, IO[str] | None], Result]) -> list[Result]:
    """Run one stage in parallel with the rest, which run in sequence. Print its output at the end."""
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
    """Builds the e2e cluster's parts in parallel with other stages: the first build takes minutes."""

    def __init__(self) -> None:
        self._log = Path(tempfile.gettempdir()) / "stoker-cluster-build.log"
        self._log.unlink(missing_ok=True)
        print(f"building the test cluster's parts in the background (log: {self._log})", flush=True)
        self._first = self._start(*CLUSTER, *OF_INTEGRATION)
        self._asked = threading.Lock()  # two stages may wait at the same time
        self._of_cluster: list[subprocess.Popen[bytes]] = []

    def wait_for(self, stage: str) -> None:
        """Wait for the parts that a stage needs.

        Stories need the cluster and Stoker's image. A late story waits for the rest itself, by the locks of builds.
        """
        if stage not in ("integration", "e2e"):
            return
        with self._asked:
            self._first.wait()
            if not self._of_cluster:
                self._of_cluster = [self._start(*CLUSTER), self._start(*IMAGES, "stoker")]
        if stage == "e2e":
            for process in self._of_cluster:
                process.wait()
            self._start(*CLUSTER, *OF_STORIES, niceness=NICENESS)
            self._start(*IMAGES, "training", "previous", "order-plugin", niceness=NICENESS)

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
        return run_stage(stage, output)

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

"""Every check in stages, as `make test` runs them: one summary at the end, and exit code 1 after any failure.

``python -m tests.run [STAGE...]`` runs only the named stages: lint unit contract model integration e2e.

Stages run in sequence, because a cluster beside other tests gets too little CPU. Only builds run beside the first ones.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
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
    # files.
    "integration": ("tests/integration", "-n", "3", *BY_FILE, "--no-loadscope-reorder", "-o", "timeout=300"),
    "e2e": ("e2e/stories", "-o", "timeout=1800", "-x" if os.environ.get("STOKER_E2E_FAIL_FAST") else "-v"),
}
STAGES = ("lint", *PYTEST)
# Programs that integration tests use. The stories use them as well.
OF_INTEGRATION = ("kube-apiserver", "kubectl", "helm", "versitygw", "csi-sanity", "kube-score", "kubesec", "crane")
CLUSTER = ("-m", "e2e.cluster", "build")
# Builds in their order. The stories need all of them, the integration tests the first.
BUILDS = (
    (*CLUSTER, *OF_INTEGRATION),
    CLUSTER,
    (*CLUSTER, "jobset", "kueue"),
    ("-m", "e2e.support.built"),
)
NICENESS = "10"  # tests beside the builds are not delayed
NEEDED = {"integration": 1, "e2e": len(BUILDS)}


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


def run_pytest(stage: str) -> tuple[int, int, int]:
    """Run one stage's tests. In CI a skipped test is a failed one, because all its requirements can be installed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *PYTEST[stage]]
        passed, failed, skipped = counts(report, subprocess.run(command, cwd=ROOT, check=False).returncode)
    return (passed, failed + skipped, 0) if os.environ.get("CI") else (passed, failed, skipped)


def run_stage(stage: str) -> Result:
    """Run one stage by its name."""
    print(f"\n=== {stage} ===", flush=True)
    start = time.monotonic()
    passed, failed, skipped = run_lint() if stage == "lint" else run_pytest(stage)
    return Result(stage, passed, failed, skipped, time.monotonic() - start)


class Builds:
    """Builds the programs and images of the test cluster in the background: the first build takes minutes."""

    def __init__(self) -> None:
        self._log = Path(tempfile.gettempdir()) / "stoker-cluster-build.log"
        self._log.unlink(missing_ok=True)
        print(f"building the test cluster's parts in the background (log: {self._log})", flush=True)
        self._pool = ThreadPoolExecutor(1)
        self._runs = [self._pool.submit(self._run, words) for words in BUILDS]

    def wait_for(self, stage: str) -> None:
        """Wait for the parts that a stage needs. Tests report a failed build."""
        for run in self._runs[: NEEDED.get(stage, 0)]:
            run.result()

    def _run(self, words: Sequence[str]) -> None:
        with self._log.open("ab") as output:
            command = ["nice", "-n", NICENESS, sys.executable, *words]
            subprocess.run(command, cwd=ROOT, check=False, stdout=output, stderr=subprocess.STDOUT)


def main(chosen: list[str]) -> int:
    """Run the stages and print the summary. Returns the exit code."""
    unknown = set(chosen) - set(STAGES)
    if unknown:
        print(f"unknown stages {sorted(unknown)}: choose from {', '.join(STAGES)}", file=sys.stderr)
        return 2
    stages = [stage for stage in STAGES if stage in (chosen or STAGES)]
    builds = Builds() if set(NEEDED) & set(stages) else None
    results = []
    for stage in stages:
        if builds:
            builds.wait_for(stage)
        results.append(run_stage(stage))
    print(f"\n{'stage':<14}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for result in results:
        print(f"{result.stage:<14}{result.passed:>8}{result.failed:>8}{result.skipped:>9}{result.seconds:>9.0f}")
    failed = sum(result.failed for result in results)
    print(f"\n{sum(r.passed for r in results)} passed, {failed} failed, {sum(r.skipped for r in results)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The operator that is measured: its process, what it takes of the machine, and what its metrics say."""

import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from bench.errors import BenchError
from bench.measure import peak_bytes
from bench.simulation.cluster import HTTP_PORT, SimulatedCluster
from bench.simulation.samples import Sample, parse, total
from e2e.cluster.processes import tail, wait_for

_PASSES = "stoker_reconcile_seconds_count"
_NAMES = ("stoker_leader", "stoker_writes_total", "stoker_loop_blocked_seconds_bucket", _PASSES)
_LOOPS = ("datasets", "pods")
_START_SECONDS = 300.0
_LOST = "the Lease was lost"
_NANO = 1e-9
_OWN_TIME = Path("/proc/self/schedstat")
# Quiet is who took less than this share of a CPU for so many seconds. Nodes that are well are heard of all the time, so
# that a share is for each of them, too (2.6 % of a CPU for 1,000 of them, measured on 2026-11-23).
_QUIET_SHARE, _QUIET_SHARE_OF_NODE, _QUIET_SECONDS, _LOOK_SECONDS = 0.10, 0.00005, 1.0, 0.25


class OperatorProcess:
    """A replica of the operator in a simulated cluster; start it with ``start``, and again after ``kill``."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._started = 0
        self._nodes = 0
        self._most = 0  # bytes of those that ended
        self.lost = 0  # how often one ended since its Lease was lost
        self._process: subprocess.Popen[bytes] | None = None

    def expect(self, nodes: int) -> None:
        """Take how many nodes there are, which even an operator with nothing to do hears of."""
        self._nodes = nodes

    @property
    def pid(self) -> int:
        """The process that runs now. Raises BenchError when it has ended."""
        return self.running().pid

    def running(self) -> "subprocess.Popen[bytes]":
        """Return the process that runs now. Raises BenchError, with the end of its log, when it has ended."""
        if self._process is None or self._process.poll() is not None:
            raise BenchError(f"the operator has ended: {tail(self._log())}")
        return self._process

    def keep(self) -> None:
        """Start it again where it lost its Lease, as its Deployment would.

        Raises BenchError where it ended otherwise, and what ``start`` raises.
        """
        process = self._process
        if process is None or process.poll() is None:
            self._most = self.peak()
        elif _LOST in tail(self._log()):
            self.lost += 1
            self.start()
        else:
            self.running()

    def start(self) -> float:
        """Start it; return the seconds until it leads. Raises BenchError, and NotReadyError with its log."""
        if not _OWN_TIME.exists():
            raise BenchError(
                "this kernel does not count the time of threads (CONFIG_SCHED_INFO): nothing can be measured"
            )
        self._started += 1
        began = time.monotonic()
        self._process = self._cluster.start_operator(self._started)
        process = self._process
        wait_for("the operator to lead", self._leads, _START_SECONDS, self._log(), lambda: process.poll() is None)
        return time.monotonic() - began

    def kill(self) -> None:
        """End it as a crash does: the Lease stays its own until that runs out."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._most = 0

    def cpu(self) -> float:
        """Return the CPU seconds of all its threads so far, to the nanosecond."""
        spent = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                spent += int((task / "schedstat").read_text().split()[0])
            except (FileNotFoundError, ProcessLookupError):
                continue  # a thread that ended while we looked
        return spent * _NANO

    def peak(self) -> int:
        """Return the most memory that it had, in bytes (RSS); with those that ended under ``keep``."""
        return max(self._most, peak_bytes([self.pid]))

    def samples(self) -> list[Sample]:
        """Return what its metrics say. Raises BenchError when it does not answer."""
        url = f"http://{self._cluster.address}:{HTTP_PORT}/metrics"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return parse(answer.read().decode(), _NAMES)
        except OSError as error:
            raise BenchError(f"the operator does not answer at {url}: {error}") from error

    def writes(self) -> float:
        """Return how many objects it has written."""
        return total(self.samples(), "stoker_writes_total")

    def wait_steady(self, seconds: float) -> float:
        """Wait until it knows the cluster, has decided about it and has nothing to do; return the seconds that it took.

        Raises NotReadyError and BenchError after too long. Before it knows the cluster it may be quiet, too: it waits
        for lists of the API server.
        """
        began = time.monotonic()
        wait_for("the first passes over Datasets and pods", self._has_passed, seconds, self._log())
        decided = time.monotonic() - began
        return decided + self.wait_quiet(seconds)

    def wait_quiet(self, seconds: float) -> float:
        """Wait until it has nothing to do; return the seconds until that began. Raises BenchError after too long."""
        began = time.monotonic()
        looks: list[tuple[float, float]] = [(began, self.cpu())]
        while not is_quiet(looks, _QUIET_SHARE + _QUIET_SHARE_OF_NODE * self._nodes):
            if looks[-1][0] - began > seconds:
                raise BenchError(f"the operator was not quiet within {seconds:.0f} s")
            time.sleep(_LOOK_SECONDS)
            looks.append((time.monotonic(), self.cpu()))
        return max(0.0, looks[-1][0] - _QUIET_SECONDS - began)

    def _leads(self) -> bool:
        try:
            return total(self.samples(), "stoker_leader") == 1
        except BenchError:
            return False

    def _has_passed(self) -> bool:
        made = {one.labels["loop"] for one in self.samples() if one.name == _PASSES and one.value}
        return made.issuperset(_LOOPS)

    def _log(self) -> Path:
        return self._cluster.log(f"operator-{self._started}")


def is_quiet(looks: Sequence[tuple[float, float]], share: float = _QUIET_SHARE) -> bool:
    """Tell whether less than a share of a CPU was taken in the last second of these looks, and they span one.

    ``looks``: moments, each with the CPU seconds until then. Pure.
    """
    now, spent = looks[-1]
    before = [one for one in looks if one[0] <= now - _QUIET_SECONDS]
    return bool(before) and spent - before[-1][1] < share * (now - before[-1][0])

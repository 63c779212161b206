"""The measured operator: its processes, and the main process's CPU time, memory and metrics."""

import subprocess
import time
import urllib.request
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from bench.errors import BenchError
from bench.measure import peak_bytes
from bench.simulation.cluster import HTTP_PORT, WEBHOOK_HTTP_PORT, SimulatedCluster
from bench.simulation.samples import Sample, parse, total
from e2e.cluster.processes import tail, wait_for

_PASSES = "stoker_reconcile_seconds_count"
_NAMES = ("stoker_leader", "stoker_writes_total", "stoker_reconcile_seconds_bucket", _PASSES)
_LOOPS = ("datasets", "pods")
_START_SECONDS = 300.0
_LOST = "the Lease was lost"
_NANO = 1e-9
_OWN_TIME = Path("/proc/self/schedstat")
# An operator is idle if it takes less than this CPU share for this number of seconds. Healthy nodes report all the
# time, so the share has a part for each node (2.6 % of a CPU for 1,000 of them, measured on 2026-11-23).
_QUIET_SHARE, _QUIET_SHARE_OF_NODE, _QUIET_SECONDS, _LOOK_SECONDS = 0.10, 0.00005, 1.0, 0.25


class OperatorProcess:
    """A replica of the operator in a simulated cluster. Call ``start`` first, and again after ``kill``."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._started = 0
        self._nodes = 0
        self._most = 0  # bytes of ended processes
        self.lost = 0  # number of processes that ended after they lost their Lease
        self._process: subprocess.Popen[bytes] | None = None
        self._webhook: subprocess.Popen[bytes] | None = None

    def expect(self, nodes: int) -> None:
        """Set the number of nodes. Even an idle operator receives reports of each node."""
        self._nodes = nodes

    @property
    def pid(self) -> int:
        """The running process. Raises BenchError if it has ended."""
        return self.running().pid

    def running(self) -> "subprocess.Popen[bytes]":
        """Return the running process. Raises BenchError, with the end of its log, if it has ended."""
        if self._process is None or self._process.poll() is not None:
            raise BenchError(f"the operator has ended: {tail(self._log())}")
        return self._process

    def keep(self) -> None:
        """Start it again if it lost its Lease, as its Deployment would.

        Raises BenchError if it ended for another reason, and the errors of ``start``.
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
        """Start it. Return the seconds until it leads. Raises BenchError, and NotReadyError with its log."""
        if not _OWN_TIME.exists():
            raise BenchError("this kernel does not count the CPU time of threads: it needs CONFIG_SCHED_INFO")
        self._started += 1
        began = time.monotonic()
        self._process = self._cluster.start_operator(self._started)
        process = self._process
        wait_for("the operator to lead", self._leads, _START_SECONDS, self._log(), lambda: process.poll() is None)
        taken = time.monotonic() - began
        self._start_webhook()
        return taken

    def kill(self) -> None:
        """Kill it as in a crash: its Lease stays until it expires."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._most = 0

    def cpu(self) -> float:
        """Return the CPU seconds of all its threads so far, with nanosecond resolution."""
        spent = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                spent += int((task / "schedstat").read_text().split()[0])
            except (FileNotFoundError, ProcessLookupError):
                continue  # the thread ended during the read
        return spent * _NANO

    def peak(self) -> int:
        """Return its peak memory in bytes (RSS), including ended processes that ``keep`` recorded."""
        return max(self._most, peak_bytes([self.pid]))

    def samples(self) -> list[Sample]:
        """Return its metrics. Raises BenchError if it does not answer."""
        url = f"http://{self._cluster.address}:{HTTP_PORT}/metrics"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return parse(answer.read().decode(), _NAMES)
        except OSError as error:
            raise BenchError(f"the operator does not answer at {url}: {error}") from error

    def writes(self) -> float:
        """Return the number of objects that it has written."""
        return total(self.samples(), "stoker_writes_total")

    def wait_steady(self, seconds: float) -> float:
        """Wait until it knows the cluster, has decided and is idle. Return the seconds that it took.

        Raises NotReadyError and BenchError after too long. Before it knows the cluster it may be quiet, too, because it
        waits for lists from the API server.
        """
        began = time.monotonic()
        wait_for("the first passes over Datasets and pods", self._has_passed, seconds, self._log())
        decided = time.monotonic() - began
        return decided + self.wait_quiet(seconds)

    def wait_quiet(self, seconds: float) -> float:
        """Wait until it is idle. Return the seconds until that started. Raises BenchError after too long."""
        began = time.monotonic()
        looks: list[tuple[float, float]] = [(began, self.cpu())]
        while not is_quiet(looks, _QUIET_SHARE + _QUIET_SHARE_OF_NODE * self._nodes):
            if looks[-1][0] - began > seconds:
                raise BenchError(f"the operator was not quiet within {seconds:.0f} s")
            time.sleep(_LOOK_SECONDS)
            looks.append((time.monotonic(), self.cpu()))
        return max(0.0, looks[-1][0] - _QUIET_SECONDS - began)

    def _start_webhook(self) -> None:
        """Start the webhook's process unless it runs: it outlives the main process."""
        if self._webhook is None or self._webhook.poll() is not None:
            self._webhook = self._cluster.start_webhook()
            wait_for("the webhook to serve", self._admits, _START_SECONDS, self._cluster.log("webhook"))

    def _admits(self) -> bool:
        url = f"http://{self._cluster.address}:{WEBHOOK_HTTP_PORT}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return bool(answer.status == HTTPStatus.OK)
        except OSError:
            return False

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
    """Return True if the CPU share in the last second of these samples is below a limit, and they span a second.

    ``looks`` has moments, each with the CPU seconds until then. Pure.
    """
    now, spent = looks[-1]
    before = [one for one in looks if one[0] <= now - _QUIET_SECONDS]
    return bool(before) and spent - before[-1][1] < share * (now - before[-1][0])

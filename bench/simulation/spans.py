"""The cost of a time span to the operator, the API server and all other processes."""

import asyncio
import time
from dataclasses import dataclass

from bench.measure import cpu_seconds
from bench.simulation.cluster import NAME, SimulatedCluster
from bench.simulation.operator_process import OperatorProcess
from bench.simulation.playing import Player
from bench.simulation.samples import Sample, by_label, parse, total, worst_bucket
from e2e.cluster.processes import owned_by

_REQUESTS = "apiserver_request_total"
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE", "APPLY"})
_WRITTEN = "stoker_writes_total"
_PASSES = "stoker_reconcile_seconds"


@dataclass(frozen=True)
class Reading:
    """Figures at one moment. Counters start at zero with their process."""

    at: float  # on the monotonic clock
    cpu: float  # of the operator, seconds
    operator: list[Sample]
    server: list[Sample]
    reports: int  # of the played sidecars
    others: dict[str, float]  # CPU seconds of all other processes, by component


@dataclass(frozen=True)
class Span:
    """Two readings, and their differences."""

    before: Reading
    after: Reading

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.after.at - self.before.at

    @property
    def cpu(self) -> float:
        """CPU seconds of the operator."""
        return self.after.cpu - self.before.cpu

    @property
    def operator_writes(self) -> float:
        """Objects written by the operator."""
        return total(self.after.operator, _WRITTEN) - total(self.before.operator, _WRITTEN)

    def operator_wrote(self) -> str:
        """Return text with the kinds of objects that the operator wrote, in descending order."""
        written = by_label(self.after.operator, _WRITTEN, "kind")
        written.subtract(by_label(self.before.operator, _WRITTEN, "kind"))
        return ", ".join(f"{count:,} {kind}s" for kind, count in written.most_common() if count > 0)

    @property
    def reports(self) -> int:
        """Statuses written by sidecars."""
        return self.after.reports - self.before.reports

    @property
    def server_writes(self) -> float:
        """Write requests to the API server from all clients."""
        return _server_writes(self.after.server) - _server_writes(self.before.server)

    def longest_pass(self) -> float:
        """Return the longest reconcile pass in seconds, as the upper edge of its bucket."""
        return worst_bucket(self.before.operator, self.after.operator, _PASSES, lambda _: True)

    def beside(self) -> str:
        """Return text with the CPU shares of all other processes."""
        before = self.before.others
        shares = {name: (spent - before.get(name, 0.0)) / self.seconds for name, spent in self.after.others.items()}
        named = sorted(shares.items(), key=lambda pair: -pair[1])
        return "beside it " + ", ".join(f"{name} {share:.0%}" for name, share in named if share >= 0.01)


class Meters:
    """Takes readings of one cluster."""

    def __init__(self, cluster: SimulatedCluster, operator: OperatorProcess, player: Player) -> None:
        self._cluster = cluster
        self._operator = operator
        self._player = player

    async def read(self) -> Reading:
        """Take a reading in a thread, outside the event loop."""
        return await asyncio.to_thread(self._read)

    async def since(self, before: Reading) -> Span:
        """Return the span from an earlier reading to now."""
        return Span(before, await self.read())

    def _read(self) -> Reading:
        server = parse(self._cluster.metrics(), (_REQUESTS,))
        others = {one.component: cpu_seconds(one.pid) for one in owned_by(NAME) if one.pid != self._operator.pid}
        others["player"] = self._player.cpu()
        written = self._player.written()
        return Reading(time.monotonic(), self._operator.cpu(), self._operator.samples(), server, written, others)


def _server_writes(samples: list[Sample]) -> float:
    return total(samples, _REQUESTS, lambda labels: labels.get("verb") in _WRITES)

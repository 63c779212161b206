"""What a span of time costs the operator, the API server and everything else that runs beside them."""

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
_BLOCKED = "stoker_loop_blocked_seconds"


@dataclass(frozen=True)
class Reading:
    """Figures at one moment; those that count up do so from the start of their process."""

    at: float  # on the monotonic clock
    cpu: float  # of the operator, seconds
    operator: list[Sample]
    server: list[Sample]
    reports: int  # of the played sidecars
    others: dict[str, float]  # CPU seconds of all else, by component


@dataclass(frozen=True)
class Span:
    """Two readings, and what lies between them."""

    before: Reading
    after: Reading

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.after.at - self.before.at

    @property
    def cpu(self) -> float:
        """CPU seconds of the operator."""
        return self.after.cpu - self.before.cpu

    @property
    def operator_writes(self) -> float:
        """Objects that the operator wrote."""
        return total(self.after.operator, _WRITTEN) - total(self.before.operator, _WRITTEN)

    def operator_wrote(self) -> str:
        """Say in words which kinds of objects the operator wrote, the most first."""
        written = by_label(self.after.operator, _WRITTEN, "kind")
        written.subtract(by_label(self.before.operator, _WRITTEN, "kind"))
        return ", ".join(f"{count:,} {kind}s" for kind, count in written.most_common() if count > 0)

    @property
    def reports(self) -> int:
        """Statuses that sidecars wrote."""
        return self.after.reports - self.before.reports

    @property
    def server_writes(self) -> float:
        """Writes that the API server was asked for, by whomever."""
        return _server_writes(self.after.server) - _server_writes(self.before.server)

    def blocked(self, clock: str) -> float:
        """Return the longest time that the operator's loop was held up, as the edge of a bucket above it; seconds.

        ``clock``: ``wall``, or ``cpu`` for what it computed of it.
        """
        before, after = self.before.operator, self.after.operator
        return worst_bucket(before, after, _BLOCKED, lambda labels: labels["clock"] == clock)

    def beside(self) -> str:
        """Say in words how much of a CPU all else took."""
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
        """Take a reading, beside the event loop."""
        return await asyncio.to_thread(self._read)

    async def since(self, before: Reading) -> Span:
        """Return the span from an earlier reading until now."""
        return Span(before, await self.read())

    def _read(self) -> Reading:
        server = parse(self._cluster.metrics(), (_REQUESTS,))
        others = {one.component: cpu_seconds(one.pid) for one in owned_by(NAME) if one.pid != self._operator.pid}
        others["player"] = self._player.cpu()
        written = self._player.written()
        return Reading(time.monotonic(), self._operator.cpu(), self._operator.samples(), server, written, others)


def _server_writes(samples: list[Sample]) -> float:
    return total(samples, _REQUESTS, lambda labels: labels.get("verb") in _WRITES)

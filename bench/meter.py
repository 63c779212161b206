"""What a measured span cost: CPU and memory of the measured processes, CPU of the server, and what it was asked for."""

from dataclasses import replace
from types import TracebackType
from typing import Self

from bench.measure import forget_peaks, peak_bytes, tree, tree_cpu_seconds
from bench.peers import Copy
from bench.report import Cost
from bench.server import LoggedRequests, S3Server, sent_bytes

_NOTHING = Cost(cpu=0.0, server_cpu=0.0, gets=0, sent=0, peak_rss=0)


class Meter:
    """A context manager that measures what happens inside; afterwards ``cost`` and ``asked`` say what it was.

    ``root`` is the process whose tree is measured; 0 for none.
    """

    def __init__(self, server: S3Server, root: int = 0) -> None:
        self._server = server
        self._root = root
        self.cost = _NOTHING
        self.asked = LoggedRequests(())

    def __enter__(self) -> Self:
        if self._root:
            forget_peaks(tree(self._root))
        self._position, self._written = self._server.position(), self._server.written()
        self._server_cpu, self._cpu = self._server.cpu_seconds(), self._tree_cpu()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logged = self._server.position() - self._position
        self.asked = self._server.asked(self._position)
        self.cost = Cost(
            cpu=self._tree_cpu() - self._cpu,
            server_cpu=self._server.cpu_seconds() - self._server_cpu,
            gets=self.asked.gets,
            sent=sent_bytes(self._server.written() - self._written, logged, len(self.asked.requests)),
            peak_rss=peak_bytes(tree(self._root)) if self._root else 0,
        )

    def of_copy(self, copy: Copy) -> Cost:
        """Return the cost of a copy that was made inside: its processes have ended and cannot be looked at any more."""
        return replace(self.cost, cpu=copy.cpu, peak_rss=copy.peak_rss)

    def _tree_cpu(self) -> float:
        return tree_cpu_seconds(self._root) if self._root else 0.0

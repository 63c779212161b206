"""Empties namespaces of finished stories in parallel with the next ones: nodes need seconds to release their data."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

# In this order: a job recreates its pods, and a Dataset stays while pods use it.
_KINDS = (("trainingjobs",), ("pods", "--grace-period=1"), ("datasets",))


class Removals:
    """Removes the objects of stories in a separate thread, one namespace after the other.

    ``kubectl`` runs it as administrator. It raises on failure, including objects that are not gone in time.
    """

    def __init__(self, kubectl: Callable[..., str]) -> None:
        self._kubectl = kubectl
        self._pool = ThreadPoolExecutor(1, "removals")
        self._begun: list[Future[None]] = []

    def begin(self, namespace: str) -> None:
        """Start to remove a namespace with all its content."""
        self._begun.append(self._pool.submit(self._remove, namespace))

    def finish(self) -> None:
        """Wait until all started removals are done. Raises the first error of a removal."""
        begun, self._begun = self._begun, []
        failures = [failure for one in begun if (failure := one.exception()) is not None]
        if failures:
            raise failures[0]

    def close(self) -> None:
        """Finish, and end the thread. Raises as ``finish`` does."""
        try:
            self.finish()
        finally:
            self._pool.shutdown()

    def _remove(self, namespace: str) -> None:
        for kind in _KINDS:
            self._kubectl("delete", *kind, "--all", "-n", namespace, "--wait", "--timeout=300s")
        self._kubectl("delete", "namespace", namespace, "--wait=false")

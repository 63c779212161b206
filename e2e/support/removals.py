"""Empties namespaces of stories that have ended beside the next ones: nodes take seconds to let go of what they had."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

# In this order: a job makes its pods anew, and a Dataset stays while pods use it.
_KINDS = (("trainingjobs",), ("pods", "--grace-period=1"), ("datasets",))


class Removals:
    """Removes what stories made, one namespace after the other, in a thread of its own.

    ``kubectl`` runs it as administrator and raises where it fails, also where something is not gone in time.
    """

    def __init__(self, kubectl: Callable[..., str]) -> None:
        self._kubectl = kubectl
        self._pool = ThreadPoolExecutor(1, "removals")
        self._begun: list[Future[None]] = []

    def begin(self, namespace: str) -> None:
        """Begin to remove a namespace with all that is in it."""
        self._begun.append(self._pool.submit(self._remove, namespace))

    def finish(self) -> None:
        """Wait until all that was begun is gone. Raises what the first of those raised that failed."""
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
            self._kubectl("delete", *kind, "--all", "-n", namespace, "--wait", "--timeout=120s")
        self._kubectl("delete", "namespace", namespace, "--wait=false")

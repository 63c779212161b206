"""The player as a process: start, requests as lines of JSON, stop."""

import json
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Self

from bench.children import receive_line, send_line, start_child
from bench.errors import BenchError
from bench.measure import cpu_seconds
from bench.simulation.cluster import SimulatedCluster
from e2e.cluster.processes import tail


class Player:
    """The played sidecars, as a context manager. Every method raises BenchError if the process has ended."""

    def __init__(self, cluster: SimulatedCluster, warming: float) -> None:
        self._cluster = cluster
        self._words = [str(cluster.kubeconfig), str(warming)]
        self._stack = ExitStack()
        self._asking = threading.Lock()  # one request at a time

    def __enter__(self) -> Self:
        with self._cluster.log("player").open("ab") as log:
            self._child = start_child(self._stack, "bench.simulation.player", *self._words, stderr=log)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(
        self,
        *,
        shift: Iterable[str] = (),
        lose: Iterable[str] = (),
        nonsense: bool | None = None,
        hasty: bool | None = None,
    ) -> dict[str, Any]:
        """Change the disks of some nodes, and turn nonsense and haste on or off. Return the figures afterwards.

        With ``hasty``, nodes write figures at once, regardless of the operator's pace.
        """
        command = {"shift": list(shift), "lose": list(lose), "nonsense": nonsense, "hasty": hasty}
        try:
            with self._asking:
                send_line(self._child, json.dumps(command))
                return dict(json.loads(receive_line(self._child)))
        except (BenchError, BrokenPipeError) as error:
            raise BenchError(f"the player has ended: {tail(self._cluster.log('player'))}") from error

    def written(self) -> int:
        """Return the number of written statuses."""
        return int(self.ask()["counts"].get("written", 0))

    def cpu(self) -> float:
        """Return its CPU seconds so far."""
        return cpu_seconds(self._child.pid)

"""The player as a process: started, asked by lines of JSON, ended."""

import json
import select
import subprocess
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import IO, Any, Self

from bench.errors import BenchError
from bench.measure import cpu_seconds
from bench.simulation.cluster import SimulatedCluster
from e2e.cluster.processes import tail

_ANSWER_SECONDS = 120.0
_END_SECONDS = 10.0


class Player:
    """The played sidecars, as a context manager. Every method raises BenchError when the process has ended."""

    def __init__(self, cluster: SimulatedCluster, warming: float) -> None:
        self._cluster = cluster
        self._warming = warming
        self._process: subprocess.Popen[bytes] | None = None
        self._asking = threading.Lock()  # one question at a time

    def __enter__(self) -> Self:
        self._process = self._cluster.start_player(self._warming)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        _pipe(self._process.stdin).close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _pipe(self._process.stdout).close()

    def ask(
        self,
        *,
        shift: Iterable[str] = (),
        lose: Iterable[str] = (),
        nonsense: bool | None = None,
        hasty: bool | None = None,
    ) -> dict[str, Any]:
        """Change the disks of some nodes, turn nonsense and haste on or off, and return the figures after it.

        ``hasty``: nodes write figures at once, whatever pace the operator set.
        """
        command = {"shift": list(shift), "lose": list(lose), "nonsense": nonsense, "hasty": hasty}
        process = self._process
        if process is None or process.poll() is not None:
            raise BenchError(f"the player has ended: {tail(self._cluster.log('player'))}")
        with self._asking:
            pipe, answers = _pipe(process.stdin), _pipe(process.stdout)
            pipe.write(json.dumps(command).encode() + b"\n")
            pipe.flush()
            if not select.select([answers], [], [], _ANSWER_SECONDS)[0]:
                raise BenchError("the player does not answer")
            line = answers.readline()
        if not line:
            raise BenchError(f"the player has ended: {tail(self._cluster.log('player'))}")
        return dict(json.loads(line))

    def written(self) -> int:
        """Return how many statuses it has written."""
        return int(self.ask()["counts"].get("written", 0))

    def cpu(self) -> float:
        """Return the CPU seconds that it has taken."""
        return cpu_seconds(self._process.pid) if self._process is not None else 0.0


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # as it was started
    return stream

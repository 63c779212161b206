"""Measures workloads sequentially, each with a separate server and temporary scratch folders."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.environment import Environment, scratch_folder
from bench.errors import UsageError
from bench.report import Row
from bench.scale import Scale
from bench.server import S3Server
from bench.workloads import WORKLOADS


def chosen(workloads: Sequence[str]) -> list[str]:
    """Return the named workloads, or all, in the order of the plan. Raises UsageError for an unknown name."""
    unknown = sorted(set(workloads) - set(WORKLOADS))
    if unknown:
        raise UsageError(f"there is no workload {', '.join(unknown)}: choose from {', '.join(WORKLOADS)}")
    return [name for name in WORKLOADS if name in (workloads or WORKLOADS)]


@dataclass(frozen=True)
class Run:
    """One run. ``cache_dir`` is on the disk to measure, ``data_dir`` on tmpfs for the server's objects.

    ``keep`` gets all rows so far after each new one.
    """

    cache_dir: Path
    data_dir: Path
    scale: Scale
    keep: Callable[[Sequence[Row]], None] = lambda rows: None

    def measure(self, workloads: Sequence[str]) -> tuple[Row, ...]:
        """Measure. Progress goes to standard error. Raises BenchError, HarnessError and SidecarError."""
        start = time.monotonic()

        def say(line: str) -> None:
            print(f"[{time.monotonic() - start:5.0f} s] {line}", file=sys.stderr, flush=True)

        with scratch_folder(self.cache_dir) as scratch, scratch_folder(self.data_dir) as data, S3Server(data) as server:
            found: list[Row] = []

            def keep(row: Row) -> None:
                if all(row is not one for one in found):  # it may arrive early, and again when the workload yields it
                    found.append(row)
                    self.keep(found)

            env = Environment(server, scratch, self.scale, say, keep)
            for name in workloads:
                for row in WORKLOADS[name](env):
                    keep(row)
            say("cleaning up")
        return tuple(found)

"""The environment that workloads run in: the server, a scratch folder on the cache disk, the sizes, and progress."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeVar

from bench.measure import drop_page_cache, forget_peaks, peak_bytes, take_memory, tree, tree_cpu_seconds
from bench.node import FiguresPort, NetworkPlace, Node
from bench.objects import write_objects
from bench.peers import Copy, s5cmd_copy, warm_s5cmd
from bench.proxy import PROFILES, delaying_proxy
from bench.report import Cost, Row
from bench.scale import Corpus, Scale
from bench.server import S3Server, sent_bytes
from bench.sidecar import Switches

_Sample = TypeVar("_Sample")
_NOTHING = Cost(cpu=0.0, server_cpu=0.0, gets=0, sent=0, peak_rss=0)


class Meter:
    """A context manager that measures the cost of its block. Afterwards, ``cost`` has the result.

    ``root`` is the root of the process tree to measure. 0 measures none.
    """

    def __init__(self, server: S3Server, root: int = 0) -> None:
        self._server = server
        self._root = root
        self.cost = _NOTHING

    def __enter__(self) -> Self:
        if self._root:
            forget_peaks(tree(self._root))
        self._position, self._written = self._server.position(), self._server.written()
        self._server_cpu, self._cpu = self._server.cpu_seconds(), self._tree_cpu()
        return self

    def __exit__(self, *_: object) -> None:
        logged = self._server.position() - self._position
        asked = self._server.asked(self._position)
        self.cost = Cost(
            cpu=self._tree_cpu() - self._cpu,
            server_cpu=self._server.cpu_seconds() - self._server_cpu,
            gets=asked.gets,
            sent=sent_bytes(self._server.written() - self._written, logged, len(asked.requests)),
            peak_rss=peak_bytes(tree(self._root)) if self._root else 0,
        )

    def _tree_cpu(self) -> float:
        return tree_cpu_seconds(self._root) if self._root else 0.0


@dataclass(frozen=True)
class Environment:
    """The environment of a workload: the S3 server, the disk to measure, and the sizes.

    ``scratch`` is an empty folder with a short name on the cache disk. ``say`` takes a line of progress. ``keep`` takes
    a row long before the workload yields it, so that an interrupted run does not lose it.
    """

    server: S3Server
    scratch: Path
    scale: Scale
    say: Callable[[str], None]
    keep: Callable[[Row], None] = lambda row: None

    @contextmanager
    def corpus(self, name: str, corpus: Corpus) -> Iterator[str]:
        """Keep the corpus in the bucket within the context. Yield its prefix."""
        self.say(f"{name}: writing {corpus.files:,} objects of {corpus.size:,} B in {corpus.folders:,} folders")
        try:
            write_objects(self.server.bucket, name, corpus)
            yield name
        finally:
            shutil.rmtree(self.server.bucket / name, ignore_errors=True)

    def repeat(self, case: str) -> Iterator[int]:
        """Yield the number of each run of a case, at least one. The scale limits the number and the time."""
        start = time.monotonic()
        for number in range(1, self.scale.repeats + 1):
            if number > 1 and time.monotonic() - start > self.scale.case_seconds:
                return
            self.say(f"{case}, run {number} of at most {self.scale.repeats}")
            yield number

    def turns(self, case: str, systems: Iterable[str]) -> Iterator[str]:
        """Yield the system to measure next. Each runs at least once, as often as the scale and its time allow.

        The systems alternate, so that other load on the machine affects all of them equally. Every second turn has the
        reverse order, because the disk below may cache the data of the previous system.
        """
        spent = dict.fromkeys(systems, 0.0)
        for number in range(1, self.scale.repeats + 1):
            order = [system for system, seconds in spent.items() if number == 1 or seconds < self.scale.case_seconds]
            if not order:
                return
            self.say(f"{case}, turn {number} of at most {self.scale.repeats}")
            for system in order if number % 2 else reversed(order):
                start = time.monotonic()
                yield system
                spent[system] += time.monotonic() - start

    def in_turns(self, case: str, runs: Mapping[str, Callable[[], _Sample]]) -> dict[str, list[_Sample]]:
        """Measure systems in alternating turns. Return the samples of each system."""
        samples: dict[str, list[_Sample]] = {system: [] for system in runs}
        for system in self.turns(case, runs):
            samples[system].append(runs[system]())
        return samples

    def copied(self, prefix: str, endpoint: str = "", memory: int = 0) -> tuple[Copy, Cost]:
        """Copy the objects to the cache disk with s5cmd, the download limit, and delete the copy.

        ``take_memory`` runs first for ``memory`` bytes. 0 skips it.
        """
        drop_page_cache()
        warm_s5cmd()
        if memory:
            take_memory(memory)
        target = self.scratch / "copy"
        try:
            with self.meter() as meter:
                copy = s5cmd_copy(self.server, prefix, target, endpoint)
            # s5cmd has exited, so the meter cannot see its CPU and memory.
            return copy, replace(meter.cost, cpu=copy.cpu, peak_rss=copy.peak_rss)
        finally:
            shutil.rmtree(target, ignore_errors=True)

    def node(
        self,
        endpoint: str = "",
        switches: Switches | None = None,
        name: str = "node",
        place: NetworkPlace | None = None,
        figures: FiguresPort | None = None,
    ) -> Node:
        """Return a node with an empty cache, as a context manager. ``Node`` explains ``place`` and ``figures``."""
        folder = self.scratch / name
        return Node(folder, self.server, endpoint=endpoint, switches=switches, place=place, figures=figures)

    @contextmanager
    def native(self, prefix: str) -> Iterator[Path]:
        """Keep a plain copy of the objects on the cache disk within the context: the limit for reads."""
        folder = self.scratch / "native"
        s5cmd_copy(self.server, prefix, folder)
        drop_page_cache()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    @contextmanager
    def profile(self, name: str) -> Iterator[str]:
        """Yield an endpoint of the server with the latency and bandwidth of the profile."""
        if name not in PROFILES:
            yield self.server.endpoint
            return
        with delaying_proxy(self.server.port, name) as endpoint:
            yield endpoint

    def meter(self, node: Node | None = None) -> Meter:
        """Return a meter for the cost of a span to the server and, if given, to the node."""
        return Meter(self.server, node.sidecar.pid if node is not None else 0)


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Make a folder for one run. Remove it with its content afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="skb-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)

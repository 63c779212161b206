"""The environment that workloads run in: the server, a scratch folder on the cache disk, the sizes, and progress."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import drop_page_cache
from bench.meter import Meter
from bench.node import NetworkPlace, Node
from bench.objects import write_objects
from bench.peers import s5cmd_copy
from bench.proxy import PROFILES, DelayingProxy
from bench.report import Row
from bench.scale import Corpus, Scale
from bench.server import S3Server
from bench.sidecar import Switches


@dataclass(frozen=True)
class Environment:
    """What a workload runs in: the S3 server, the disk to measure, and how much to measure.

    ``scratch`` is an empty folder with a short name on the cache disk; ``say`` takes a line of progress for people.
    ``keep`` takes a row that was measured long before the workload yields it, lest a run that is cut short lose it.
    """

    server: S3Server
    scratch: Path
    scale: Scale
    say: Callable[[str], None]
    keep: Callable[[Row], None] = lambda row: None

    @contextmanager
    def corpus(self, name: str, corpus: Corpus) -> Iterator[str]:
        """Keep the corpus in the bucket while inside; yield its prefix."""
        self.say(f"{name}: writing {corpus.files:,} objects of {corpus.size:,} B in {corpus.folders:,} folders")
        try:
            write_objects(self.server.bucket, name, corpus)
            yield name
        finally:
            shutil.rmtree(self.server.bucket / name, ignore_errors=True)

    def repeat(self, case: str) -> Iterator[int]:
        """Yield the number of each run of a case: as many as the scale says and as its time allows, at least one."""
        start = time.monotonic()
        for number in range(1, self.scale.repeats + 1):
            if number > 1 and time.monotonic() - start > self.scale.case_seconds:
                return
            self.say(f"{case}, run {number} of at most {self.scale.repeats}")
            yield number

    def turns(self, case: str, systems: Iterable[str]) -> Iterator[str]:
        """Yield the system to measure next: each as often as the scale says and as its own time allows, at least once.

        They take turns, so that what else the machine does falls on all of them, every other time the other way round:
        what one has read, the disk below may have in its own cache for the next.
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

    def node(
        self,
        endpoint: str = "",
        switches: Switches | None = None,
        name: str = "node",
        place: NetworkPlace | None = None,
    ) -> Node:
        """Return a node with an empty cache, to be used as a context manager. ``place``: in a network, or None."""
        return Node(self.scratch / name, self.server, endpoint=endpoint, switches=switches, place=place)

    @contextmanager
    def native(self, prefix: str) -> Iterator[Path]:
        """Keep a plain copy of the objects on the cache disk while inside: the limit for reading."""
        folder = self.scratch / "native"
        s5cmd_copy(self.server, prefix, folder)
        drop_page_cache()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    @contextmanager
    def profile(self, name: str) -> Iterator[str]:
        """Yield an endpoint of the server that is as far away as the profile says."""
        if name not in PROFILES:
            yield self.server.endpoint
            return
        with DelayingProxy(self.server.port, name) as proxy:
            yield proxy.endpoint

    def meter(self, node: Node | None = None) -> Meter:
        """Return a meter of what a span costs the server and, when given, the node."""
        return Meter(self.server, node.sidecar.pid if node is not None else 0)


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Make a folder for one run, and remove it with all that is in it."""
    folder = Path(tempfile.mkdtemp(prefix="skb-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)

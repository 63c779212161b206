"""The test bed that workloads share: the server, a scratch folder on the cache disk, the sizes, and a line on what happens now."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.objects import write_objects
from bench.scale import Corpus, Scale
from bench.server import S3Server
from bench.sidecar import Sidecar


@dataclass(frozen=True)
class Bed:
    """``scratch``: an empty folder with a short name on the disk that is measured. ``say``: for people."""

    server: S3Server
    scratch: Path
    scale: Scale
    say: Callable[[str], None]

    @contextmanager
    def corpus(self, name: str, corpus: Corpus) -> Iterator[str]:
        """The corpus in the bucket while inside; its prefix."""
        self.say(f"{name}: writing {corpus.files:,} objects of {corpus.size:,} B in {corpus.folders:,} folders")
        try:
            write_objects(self.server.bucket, name, corpus)
            yield name
        finally:
            shutil.rmtree(self.server.bucket / name, ignore_errors=True)

    def repeat(self, case: str) -> Iterator[int]:
        """Numbers of the runs of a case, for a loop: as many as the scale says and as its time allows, at least one."""
        start = time.monotonic()
        for number in range(1, self.scale.repeats + 1):
            if number > 1 and time.monotonic() - start > self.scale.case_seconds:
                return
            self.say(f"{case}, run {number} of at most {self.scale.repeats}")
            yield number

    def sidecar(self, endpoint: str = "", agent_options: Sequence[str] = ()) -> Sidecar:
        """A sidecar with an empty cache, to be used as a context manager; with an agent when that is given options."""
        return Sidecar(self.scratch / "sidecar", self.server, endpoint=endpoint, agent_options=agent_options)

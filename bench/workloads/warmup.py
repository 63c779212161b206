"""B6: how long until everything is on the node, beside s5cmd; and what a killed fetcher fetches again."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.bed import Bed
from bench.errors import BenchError
from bench.measure import wait_until
from bench.peers import s5cmd_copy
from bench.proxy import PROFILES, DelayingProxy
from bench.report import Row
from bench.scale import Corpus
from bench.sidecar import WARM_SECONDS, Sidecar

_OURS = "Stoker"
_PEER = "s5cmd"


@dataclass(frozen=True)
class _Run:
    """One warm-up by one subject. CPU in seconds."""

    subject: str
    seconds: float
    cpu: float
    server_cpu: float
    gets: int
    lists: int


def measure(bed: Bed) -> Iterator[Row]:
    """Rows of every corpus and profile of the scale."""
    for corpus in bed.scale.warmups:
        with bed.corpus("b6", corpus) as prefix:
            for profile in bed.scale.profiles:
                yield from _compare(bed, corpus, prefix, profile)
    with bed.corpus("b6-killed", bed.scale.killed) as prefix:
        yield _after_a_kill(bed, bed.scale.killed, prefix)


def _compare(bed: Bed, corpus: Corpus, prefix: str, profile: str) -> Iterator[Row]:
    with ExitStack() as stack:
        endpoint = bed.server.endpoint
        if profile in PROFILES:
            endpoint = stack.enter_context(DelayingProxy(bed.server.port, profile)).endpoint
        runs = []
        for _ in bed.repeat(f"B6 {profile}: {corpus.files:,} x {corpus.size:,} B"):
            runs += [_peer(bed, prefix, endpoint), _ours(bed, prefix, endpoint)]
    yield from _rows(corpus, profile, runs)


def _peer(bed: Bed, prefix: str, endpoint: str) -> _Run:
    os.sync()  # an earlier run's dirty pages are not this one's
    target = bed.scratch / "copy"
    position, before = bed.server.position(), bed.server.cpu_seconds()
    copy = s5cmd_copy(bed.server, prefix, target, endpoint)
    asked = bed.server.asked(position)
    shutil.rmtree(target)
    return _Run(_PEER, copy.seconds, copy.cpu, bed.server.cpu_seconds() - before, asked.gets, asked.lists)


def _ours(bed: Bed, prefix: str, endpoint: str) -> _Run:
    with bed.sidecar(endpoint) as sidecar:
        os.sync()
        position, before = bed.server.position(), bed.server.cpu_seconds()
        ours, start = sidecar.cpu_seconds(), time.monotonic()
        sidecar.warm(sidecar.list_source(prefix))
        seconds = time.monotonic() - start
        asked, cpu = bed.server.asked(position), sidecar.cpu_seconds() - ours
        return _Run(_OURS, seconds, cpu, bed.server.cpu_seconds() - before, asked.gets, asked.lists)


def _rows(corpus: Corpus, profile: str, runs: list[_Run]) -> Iterator[Row]:
    case = f"{corpus.files:,} x {_size(corpus.size)}, {profile}"
    for subject in (_PEER, _OURS):
        mine = [run for run in runs if run.subject == subject]
        asked = f"{mine[-1].gets:,} GETs, {mine[-1].lists:,} LISTs"
        figures = (
            ("s", [run.seconds for run in mine], asked),
            ("objects/s", [corpus.files / run.seconds for run in mine], ""),
            ("MB/s", [corpus.total_bytes / 1e6 / run.seconds for run in mine], ""),
            ("CPU s", [run.cpu for run in mine], f"server {mine[-1].server_cpu:.1f} CPU s"),
        )
        for unit, samples, note in figures:
            yield Row("B6", case, subject, unit, tuple(samples), _PEER, note)


def _after_a_kill(bed: Bed, corpus: Corpus, prefix: str) -> Row:
    """kill -9 of the fetcher when half is here: objects that were whole on the disk and were asked for again."""
    bed.say("B6: kill -9 of the fetcher in the middle")
    with bed.sidecar() as sidecar:
        volume = sidecar.list_source(prefix)
        position = bed.server.position()
        sidecar.begin_warming(volume)
        half = corpus.files // 2
        wait_until("half of the objects", lambda: bed.server.asked(position).gets >= half, WARM_SECONDS)
        sidecar.kill_fetcher()
        finished = _files(volume.paths.tree)
        position = bed.server.position()
        sidecar.warm(volume)
        again = _again(finished, prefix, bed, position)
        _check_all_there(sidecar, volume.paths.tree, corpus)
    note = f"of {len(finished):,} that were finished; {corpus.files - len(finished):,} were left"
    return Row("B6", "kill -9 in the middle", _OURS, "finished files fetched again", (float(again),), note=note)


def _again(finished: set[str], prefix: str, bed: Bed, position: int) -> int:
    fetched = bed.server.asked(position).fetched
    return sum(fetched[f"{prefix}/{path}"] for path in finished)


def _check_all_there(sidecar: Sidecar, tree: Path, corpus: Corpus) -> None:
    found = len(_files(tree))
    if found != corpus.files:
        raise BenchError(f"{found} of {corpus.files} files are in the tree; the node says {sidecar.progress()}")


def _files(tree: Path) -> set[str]:
    return {str(Path(folder, name).relative_to(tree)) for folder, _, names in os.walk(tree) for name in names}


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 10**6 else f"{size / 1024:.0f} KiB"

"""B5: names and attributes of many entries: walked twice, and names that do not exist asked for twice."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.bed import Bed
from bench.errors import BenchError
from bench.measure import MIB, drop_page_cache, memory
from bench.objects import paths
from bench.report import Row
from bench.scale import Corpus
from bench.sidecar import Sidecar, Volume, fuse_requests

_NATIVE, _FUSE = "native", "Stoker FUSE"
_ABSENT_NAMES = 10_000


def measure(bed: Bed) -> Iterator[Row]:
    """Rows of every shape of the scale."""
    for corpus in bed.scale.entries:
        shape = f"{corpus.files:,} entries in {corpus.folders:,} folder{'s' if corpus.folders > 1 else ''}"
        with bed.corpus("b5", corpus) as prefix, bed.sidecar() as sidecar:
            bed.say(f"B5: {shape}")
            yield from _native(bed, corpus, shape)
            volume, rows = _visible(bed, corpus, prefix, shape, sidecar)
            yield from rows
            yield from _walks(sidecar, volume, corpus, shape)


def _native(bed: Bed, corpus: Corpus, shape: str) -> Iterator[Row]:
    root = bed.scratch / "native"
    for path in paths(corpus):
        target = root / path
        try:
            target.touch()
        except FileNotFoundError:
            target.parent.mkdir(parents=True)
            target.touch()
    drop_page_cache()
    for name in ("first walk", "second walk"):
        yield Row("B5", f"{shape}, {name}", _NATIVE, "entries/s", (_walk(root, corpus),), _NATIVE)
    shutil.rmtree(root)


def _visible(bed: Bed, corpus: Corpus, prefix: str, shape: str, sidecar: Sidecar) -> tuple[Volume, tuple[Row, ...]]:
    """List, then the time until the last name can be seen through FUSE."""
    position, start = bed.server.position(), time.time()
    volume = sidecar.list_source(prefix)
    listed_at, lists = bed.server.last_asked_at(), bed.server.asked(position).lists
    sidecar.offer(volume)
    last = sidecar.mount(volume) / list(paths(corpus))[-1]
    if last.stat().st_size != corpus.size:
        raise BenchError(f"{last.name} has {last.stat().st_size} bytes through FUSE where {corpus.size} are right")
    size = volume.paths.manifest.stat().st_size / MIB
    return volume, (
        Row("B5", shape, "Stoker", "s of LIST", (listed_at - start,), note=f"{lists:,} LISTs"),
        Row("B5", shape, _FUSE, "s from the end of LIST to the tree", (time.time() - listed_at,)),
        Row("B5", shape, "Stoker", "MiB of manifest", (size,)),
    )


def _walks(sidecar: Sidecar, volume: Volume, corpus: Corpus, shape: str) -> Iterator[Row]:
    root = sidecar.mount_root / volume.uid / volume.digest
    for name in ("first walk", "second walk"):
        rate, note = _counted(root, lambda: _walk(root, corpus))
        yield Row("B5", f"{shape}, {name}", _FUSE, "entries/s", (rate,), _NATIVE, note)
    for name in ("first time", "second time"):
        rate, note = _counted(root, lambda: _ask_absent(root))
        yield Row("B5", f"{shape}, absent names, {name}", _FUSE, "names/s", (rate,), note=note)
    (server,) = (pid for name, pid in sidecar.pids().items() if name.startswith("fs"))
    yield Row("B5", shape, _FUSE, "MiB RSS of the server", (memory(server).rss / MIB,))


def _counted(root: Path, work: Callable[[], float]) -> tuple[float, str]:
    """What the work returns, and what of it reached the FUSE server, in words."""
    before = fuse_requests(root)
    rate = work()
    after = fuse_requests(root)
    total = sum(after.values()) - sum(before.values())
    grown = {name: count - before.get(name, 0) for name, count in after.items() if count > before.get(name, 0)}
    detail = ", ".join(f"{count:,} {name}" for name, count in sorted(grown.items()))
    return rate, f"{total:,} requests reached the server" + (f": {detail}" if detail else "")


def _walk(root: Path, corpus: Corpus) -> float:
    """Entries a second of listing every folder and asking every entry's attributes."""
    start = time.monotonic()
    count = _visit(str(root))
    seconds = time.monotonic() - start
    if count != corpus.files + corpus.folders:
        raise BenchError(f"{count} entries were found below {root} where {corpus.files + corpus.folders} are right")
    return count / seconds


def _visit(folder: str) -> int:
    count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            count += 1
            entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                count += _visit(entry.path)
    return count


def _ask_absent(root: Path) -> float:
    start = time.monotonic()
    if any(os.path.exists(f"{root}/absent-{number}") for number in range(_ABSENT_NAMES)):  # noqa: PTH110  a Path costs more than the call
        raise BenchError(f"a name that no object has exists below {root}")
    return _ABSENT_NAMES / (time.monotonic() - start)

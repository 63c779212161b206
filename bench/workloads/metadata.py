"""B5: names and attributes of many entries: two walks, and two lookups of names that do not exist."""

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.environment import Environment
from bench.errors import BenchError
from bench.measure import drop_page_cache, memory
from bench.node import Node, Volume, fuse_requests
from bench.objects import paths
from bench.report import Row
from bench.scale import Corpus
from bench.systems import NATIVE, STOKER, STOKER_FUSE, STOKER_OVERLAY
from stoker_api.datasets.dataset import MountMode

_ABSENT_NAMES = 10_000


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for every shape of the scale."""
    for corpus in env.scale.entries:
        shape = f"{corpus.files:,} entries in {corpus.folders:,} folder{'s' if corpus.folders > 1 else ''}"
        with env.corpus("b5", corpus) as prefix, env.node() as node:
            env.say(f"B5: {shape}")
            yield from _native(env, corpus, shape)
            volume, target, rows = _visible(env, corpus, prefix, shape, node)
            yield from rows
            yield from _every_mount(node, volume, target, corpus, shape)


def _native(env: Environment, corpus: Corpus, shape: str) -> Iterator[Row]:
    root = env.scratch / "native"
    for path in paths(corpus):
        target = root / path
        try:
            target.touch()
        except FileNotFoundError:
            target.parent.mkdir(parents=True)
            target.touch()
    drop_page_cache()
    yield from _walks(NATIVE, root, corpus, shape)
    shutil.rmtree(root)


def _visible(env: Environment, corpus: Corpus, prefix: str, shape: str, node: Node) -> tuple[Volume, Path, list[Row]]:
    """List. Measure the time until a pod can see the last name, and until its mount is an overlay."""
    with env.meter(node) as meter:
        start = time.time()
        volume = node.list_source(prefix)
        listed_at = env.server.last_asked_at()
    node.offer(volume)
    target = node.publish(volume)
    last = target / list(paths(corpus))[-1]
    if last.stat().st_size != corpus.size:
        raise BenchError(f"{last.name} has {last.stat().st_size} bytes for a pod where {corpus.size} are right")
    visible = time.time() - listed_at
    size = volume.paths.manifest.stat().st_size / 1e6
    rows = [
        Row("B5", shape, STOKER, "s of LIST", (listed_at - start,), costs=(meter.cost,)),
        Row("B5", shape, STOKER, "s from the end of LIST to the tree", (visible,)),
        Row("B5", shape, STOKER, "MB of manifest", (size,)),
    ]
    if node.overlays():
        node.wait_mode(target, MountMode.OVERLAY)
        rows += [Row("B5", shape, STOKER, "s from the end of LIST to the overlay", (time.time() - listed_at,))]
    return volume, target, rows


def _every_mount(node: Node, volume: Volume, target: Path, corpus: Corpus, shape: str) -> Iterator[Row]:
    fuse = node.layer(volume, MountMode.FUSE)
    if fuse is None:
        raise BenchError("a version that is not whole has no FUSE mount on this node")
    ways = {STOKER_OVERLAY: target} if node.overlays() else {}
    for system, root in (ways | {STOKER_FUSE: fuse}).items():
        drop_page_cache()
        yield from _walks(system, root, corpus, shape, fuse)
    (server,) = (pid for name, pid in node.sidecar.pids().items() if name.startswith("fs"))
    yield Row("B5", shape, STOKER_FUSE, "MB RSS of the server", (memory(server).rss / 1e6,))


def _walks(system: str, root: Path, corpus: Corpus, shape: str, fuse: Path | None = None) -> Iterator[Row]:
    """Walk, and look up absent names, twice each. With a FUSE mount, count the requests to its server."""
    for name, unit, work in (
        ("first walk", "entries/s", _walk),
        ("second walk", "entries/s", _walk),
        ("absent names, first time", "names/s", _ask_absent),
        ("absent names, second time", "names/s", _ask_absent),
    ):
        before = _requests(fuse)
        rate, requests = work(root, corpus), _requests(fuse) - before
        detail = ", ".join(f"{count:,} {operation}" for operation, count in sorted(requests.items()))
        yield Row("B5", f"{shape}, {name}", system, unit, (rate,), NATIVE, detail)
        if fuse is not None:
            yield Row("B5", f"{shape}, {name}", system, "requests at the FUSE server", (float(requests.total()),))


def _requests(fuse: Path | None) -> Counter[str]:
    return Counter(fuse_requests(fuse) if fuse is not None else {})


def _walk(root: Path, corpus: Corpus) -> float:
    """Return entries per second of a walk that lists every folder and stats every entry."""
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


def _ask_absent(root: Path, _corpus: Corpus) -> float:
    start = time.monotonic()
    if any(os.path.exists(f"{root}/absent-{number}") for number in range(_ABSENT_NAMES)):  # noqa: PTH110  a Path costs more than the call
        raise BenchError(f"a name that no object has exists below {root}")
    return _ABSENT_NAMES / (time.monotonic() - start)

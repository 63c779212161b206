"""Memory of the whole sidecar with one large dataset: listed, walked and read while it is missing, then warmed."""

import os
import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.environment import Environment
from bench.errors import BenchError
from bench.measure import MemoryWatch, Peak, wait_until
from bench.node import Node, Volume
from bench.objects import paths
from bench.report import Row
from bench.scale import Corpus
from bench.systems import STOKER, cold_mount

_READS = 2_000  # at most; a tenth of a small corpus
_SECONDS = 300.0


def measure(env: Environment) -> Iterator[Row]:
    """Yield the peak of every process, and the requests to the server."""
    corpus = env.scale.memory
    with env.corpus("memory", corpus) as prefix, env.node() as node:
        with MemoryWatch(node.sidecar.pids) as watch:
            yield from _live(env, corpus, prefix, node)
        yield from _peaks(corpus, watch.peak)


def _live(env: Environment, corpus: Corpus, prefix: str, node: Node) -> Iterator[Row]:
    case = f"{corpus.files:,} objects"
    start = env.server.position()
    env.say(f"memory: listing {case}")
    volume = node.list_source(prefix)
    yield Row("memory", case, STOKER, "LISTs to list it", (float(env.server.asked(start).lists),))
    yield Row("memory", case, STOKER, "MB of manifest", (volume.paths.manifest.stat().st_size / 1e6,))
    env.say("memory: a pod mounts it, walks it and reads some of it")
    after_list = env.server.position()
    node.offer(volume)
    reads = _walk_and_read(cold_mount(node, volume), corpus)
    asked = env.server.asked(after_list)
    case_read = f"{corpus.files:,} lookups and {reads:,} reads of missing files"
    yield Row("memory", case_read, STOKER, "LISTs", (float(asked.lists),))
    yield Row("memory", case_read, STOKER, "GETs", (float(asked.gets),))
    yield _warmed(env, corpus, node, volume)


def _walk_and_read(root: Path, corpus: Corpus) -> int:
    """Stat every name once and read some files completely. Return their number. Raises BenchError."""
    walked = sum(len(files) for _, _, files in os.walk(root))
    if walked != corpus.files:
        raise BenchError(f"{walked} files were found below {root} where {corpus.files} are right")
    reads = random.Random(1).sample(list(paths(corpus)), min(_READS, corpus.files // 10))
    for path in reads:
        if len((root / path).read_bytes()) != corpus.size:
            raise BenchError(f"{path} was read short while it was missing")
    return len(reads)


def _warmed(env: Environment, corpus: Corpus, node: Node, volume: Volume) -> Row:
    """Warm while the mount is in use, for the scale's duration."""
    env.say(f"memory: warming, at most {env.scale.warm_seconds:.0f} s")
    with env.meter() as meter:
        start = time.monotonic()
        node.offer(volume, eager=True)
        over = partial(_over, volume, start, env.scale.warm_seconds)
        wait_until("warming", over, env.scale.warm_seconds + _SECONDS)
        seconds = time.monotonic() - start
    gets = meter.cost.gets
    note = f"{gets:,} GETs in {seconds:.0f} s"
    return Row("memory", f"{corpus.files:,} objects", STOKER, "objects/s warmed", (gets / seconds,), note=note)


def _over(volume: Volume, start: float, seconds: float) -> bool:
    return volume.paths.complete.exists() or time.monotonic() - start > seconds


def _peaks(corpus: Corpus, peak: Peak) -> Iterator[Row]:
    case = f"{corpus.files:,} objects, at the peak"
    for name, one in [*sorted(peak.processes.items()), ("all processes", peak.total)]:
        yield Row("memory", case, name, "MB PSS", (one.pss / 1e6,), note=f"RSS {one.rss / 1e6:.0f} MB")

"""B8: a training that starts at once on a distant dataset, compared with one that waits for a full copy."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache
from bench.node import Node
from bench.objects import paths
from bench.report import Row
from bench.scale import IMAGE_BYTES, Corpus
from bench.sidecar import Switches
from bench.systems import S5CMD, STOKER
from bench.trainer import IMAGES_A_BATCH, STEP_SECONDS

_PROFILE = "PBW"
_NO_READAHEAD = "Stoker, readahead off"
_BATCH = 64
_WORKERS = 4


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for the copy, the first batch of a lazy epoch, and the whole lazy epoch."""
    corpus = env.scale.shards
    case = f"{corpus.files} shards of {corpus.size / 1e6:.1f} MB, {_PROFILE}"
    with env.corpus("b8", corpus) as prefix, env.profile(_PROFILE) as endpoint:
        env.say(f"B8: copy of {case}")
        copy, cost = env.copied(prefix, endpoint)
        yield Row("B8", case, S5CMD, "s", (copy.seconds,), S5CMD, "the whole copy", (cost,))
        yield from _lazy(env, prefix, endpoint, case, copy.seconds)


def _lazy(env: Environment, prefix: str, endpoint: str, case: str, copied: float) -> Iterator[Row]:
    """Measure a normal lazy epoch, and one without readahead."""
    corpus = env.scale.shards
    compute = corpus.total_bytes / IMAGE_BYTES / IMAGES_A_BATCH * STEP_SECONDS
    for system, switches in ((STOKER, Switches()), (_NO_READAHEAD, Switches(readahead=False))):
        env.say(f"B8: lazy epoch of {case}, {system}")
        with env.node(endpoint, switches) as node:
            drop_page_cache()
            with env.meter(node) as meter:
                first, whole = _lazy_epoch(node, prefix, corpus)
        note = f"compute {compute:.1f} s"
        yield Row("B8", case, system, "s", (whole,), S5CMD, "the whole lazy epoch", (meter.cost,))
        yield Row("B8", case, system, "s to the first batch", (first,), note=f"{_BATCH} records of {IMAGE_BYTES:,} B")
        yield Row("B8", case, system, "first batch, % of the copy", (100 * first / copied,))
        yield Row("B8", case, system, "epoch, x max(copy, compute)", (whole / max(copied, compute),), note=note)


def _lazy_epoch(node: Node, prefix: str, corpus: Corpus) -> tuple[float, float]:
    """Return the seconds from the dataset's plan to the first batch, and to the end of reads and computation.

    It reads like a loader of shards: each worker has its own shard and reads records in sequence. The first batch has
    records of every worker.
    """
    shards = list(paths(corpus))
    start = time.monotonic()
    volume = node.list_source(prefix)
    node.offer(volume)
    root = node.publish(volume)
    begun = shards[:_WORKERS]
    with ThreadPoolExecutor(_WORKERS) as workers:
        firsts = [workers.submit(_records, root / shard, _BATCH // len(begun)) for shard in begun]
        for first in firsts:
            first.result()
        seconds = time.monotonic() - start
        all_read = [workers.submit(_epoch_of, root, shards[number::_WORKERS]) for number in range(_WORKERS)]
        for one in all_read:
            one.result()
    return seconds, time.monotonic() - start


def _epoch_of(root: Path, shards: Sequence[str]) -> None:
    for shard in shards:
        _records(root / shard)


def _records(shard: Path, count: int = -1) -> None:
    """Read the first ``count`` records of a shard, or all, with the accelerator's time in between."""
    with shard.open("rb", buffering=0) as file:
        while count != 0 and file.read(IMAGE_BYTES):
            count -= 1
            time.sleep(STEP_SECONDS / IMAGES_A_BATCH)

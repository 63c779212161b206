"""B3: a dataset larger than its quota, in epochs of new orders, from a distant server."""

from collections.abc import Iterator

from bench.environment import Environment
from bench.measure import drop_page_cache
from bench.node import Node
from bench.readers import read_epoch
from bench.report import Row
from bench.scale import Corpus
from bench.sidecar import Switches
from bench.systems import STOKER, cold_volume
from bench.workloads.epochs import new_orders

_EPOCHS = 5
_READERS = 4
_PROFILE = "P20"
_LEAST_READ_THROUGH = 2**20  # one file for each reader


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each quota."""
    corpus = env.scale.partial
    with env.corpus("b3", corpus) as prefix, env.profile(_PROFILE) as endpoint:
        for quota in env.scale.quotas:
            with env.node(endpoint, Switches(read_through=read_through(corpus))) as node:
                yield from _epochs(env, node, prefix, quota)


def read_through(corpus: Corpus) -> int:
    """Return the bytes for files that are not cached: a hundredth of the data. More would be a second cache."""
    return max(_LEAST_READ_THROUGH, corpus.total_bytes // 100)


def _epochs(env: Environment, node: Node, prefix: str, quota: float) -> Iterator[Row]:
    """Measure all epochs but the first, which fills the cache."""
    corpus = env.scale.partial
    orders, costs, rates = new_orders(corpus), [], []
    volume, target = cold_volume(node, prefix)
    node.offer(volume, quota=round(corpus.total_bytes * quota))
    for epoch in range(1, _EPOCHS + 1):
        env.say(f"B3: quota {quota}, epoch {epoch} of {_EPOCHS}")
        drop_page_cache()  # otherwise the kernel caches files beyond the quota
        with env.meter(node) as meter:
            rates.append(read_epoch(target, next(orders), _READERS, corpus.total_bytes).rate)
        costs.append(meter.cost)
    later = tuple(costs[1:])
    case, note = f"quota {quota:.2f} of the data, {_PROFILE}", f"epochs 2 to {_EPOCHS}"
    yield Row("B3", case, STOKER, "files/s", tuple(rates[1:]), note=note, costs=later)
    yield Row("B3", case, STOKER, "% hits", tuple(hits(cost.gets, corpus.files) for cost in later), note=note)
    hits_off = tuple(abs(hits(cost.gets, corpus.files) - 100 * quota) for cost in later)
    yield Row("B3", case, STOKER, "points of hits off the quota", hits_off)
    sent = tuple(100 * abs(cost.sent / corpus.total_bytes / (1 - quota) - 1) for cost in later)
    yield Row("B3", case, STOKER, "% of bytes off 1 - quota", sent)


def hits(gets: int, files: int) -> float:
    """Return the percentage of files that were read without a GET. Pure."""
    return 100 * (1 - gets / files)

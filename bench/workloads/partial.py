"""B3: a dataset that does not fit its quota, in epochs of new orders, from a distant server."""

from collections.abc import Iterator

from bench.environment import Environment
from bench.measure import drop_page_cache
from bench.node import Node
from bench.readers import read_epoch
from bench.report import Cost, Row
from bench.scale import Corpus
from bench.sidecar import Switches
from bench.systems import STOKER, cold_volume
from bench.variants.fetcher import DRIVE_OUT_OLDEST
from bench.workloads.epochs import Orders

_EPOCHS = 5
_READERS = 4
_PROFILE = "P20"
_DRIVEN_OUT = "Stoker, oldest driven out"
_LEAST_READ_THROUGH = 2**20  # a file for each reader


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each quota; for the middle one also with a cache that evicts the oldest file for a new one."""
    corpus, quotas = env.scale.partial, env.scale.quotas
    with env.corpus("b3", corpus) as prefix, env.profile(_PROFILE) as endpoint:
        for quota in quotas:
            with env.node(endpoint, Switches(read_through=read_through(corpus))) as node:
                yield from _epochs(env, node, prefix, quota, STOKER)
        switches = Switches(policy=DRIVE_OUT_OLDEST, read_through=read_through(corpus))
        with env.node(endpoint, switches) as node:
            yield from _epochs(env, node, prefix, quotas[len(quotas) // 2], _DRIVEN_OUT)


def read_through(corpus: Corpus) -> int:
    """Return the bytes for files that are not kept: a hundredth of the data, since more would be a second cache."""
    return max(_LEAST_READ_THROUGH, corpus.total_bytes // 100)


def _epochs(env: Environment, node: Node, prefix: str, quota: float, system: str) -> Iterator[Row]:
    """Measure all epochs but the first, which fills the cache."""
    corpus = env.scale.partial
    orders, costs, rates = Orders(corpus), [], []
    volume, target = cold_volume(node, prefix)
    node.offer(volume, quota=round(corpus.total_bytes * quota))
    for epoch in range(1, _EPOCHS + 1):
        env.say(f"B3: quota {quota}, {system}, epoch {epoch} of {_EPOCHS}")
        drop_page_cache()  # else the kernel keeps what the quota forbids
        with env.meter(node) as meter:
            rates.append(read_epoch(target, orders.next(), _READERS, corpus.total_bytes).rate)
        costs.append(meter.cost)
    later = tuple(costs[1:])
    case, note = f"quota {quota:.2f} of the data, {_PROFILE}", f"epochs 2 to {_EPOCHS}"
    yield Row("B3", case, system, "files/s", tuple(rates[1:]), note=note, costs=later)
    yield Row("B3", case, system, "% hits", tuple(hits(cost.gets, corpus.files) for cost in later), note=note)
    sent = tuple(off(cost.sent / corpus.total_bytes, 1 - quota) for cost in later)
    yield Row(
        "B3",
        case,
        system,
        "points of hits off the quota",
        tuple(_hits_off(cost, corpus.files, quota) for cost in later),
    )
    yield Row("B3", case, system, "% of bytes off 1 - quota", sent)


def hits(gets: int, files: int) -> float:
    """Return the percentage of files that were read without a GET. Pure."""
    return 100 * (1 - gets / files)


def off(share: float, wanted: float) -> float:
    """Return how far one share is off another, in percent of that. Pure."""
    return 100 * abs(share / wanted - 1)


def _hits_off(cost: Cost, files: int, quota: float) -> float:
    return abs(hits(cost.gets, files) - 100 * quota)

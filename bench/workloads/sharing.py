"""B7: how often the server sends a byte, if several readers of a cold node, or two nodes, read all data."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache
from bench.objects import paths
from bench.readers import Job, read_jobs
from bench.report import Row
from bench.scale import Corpus
from bench.systems import STOKER, cold_volume
from bench.workloads.epochs import new_orders

_READERS = 4
_UNIT = "x the data sent by the server, a node"


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for small files and for large ones, with one node and two."""
    small, large = env.scale.images, env.scale.shards
    with env.corpus("b7", small) as prefix:
        mixed = list(islice(new_orders(small), _READERS))
        yield _shared(env, prefix, small, mixed, f"{_READERS} readers, an order each, small files")
        yield _shared(env, prefix, small, mixed, f"2 nodes of {_READERS} readers, small files", nodes=2)
    with env.corpus("b7", large) as prefix:
        same = [list(paths(large))] * _READERS
        yield _shared(env, prefix, large, same, f"{_READERS} readers, one order, large files")


def _shared(env: Environment, prefix: str, corpus: Corpus, orders: list[list[str]], case: str, nodes: int = 1) -> Row:
    """Let readers on all nodes read everything at the same time, each in its own order. A count needs only one run."""
    env.say(f"B7: {case}")
    with ExitStack() as stack:
        all_nodes = [stack.enter_context(env.node(name=f"node{number}")) for number in range(nodes)]
        roots = [cold_volume(node, prefix)[1].relative_to("/") for node in all_nodes]
        jobs = [Job([f"{root}/{path}" for path in order]) for root in roots for order in orders]
        drop_page_cache()
        with env.meter(all_nodes[0]) as meter:
            epoch = read_jobs(Path("/"), jobs, corpus.total_bytes * len(jobs))
    said = f"{epoch.mb_rate:,.0f} MB/s read" + ("; no rule divides what is cold" if nodes > 1 else "")
    sent = meter.cost.sent / corpus.total_bytes / nodes
    return Row("B7", case, STOKER, _UNIT, (sent,), note=said, costs=(meter.cost,))

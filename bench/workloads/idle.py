"""The sidecar's work while pods read natively with the observer off: it should be none, and this counts it."""

import time
from collections.abc import Iterator

from bench.environment import Environment
from bench.measure import tree_cpu_seconds
from bench.node import Node
from bench.readers import read_epoch
from bench.report import Row
from bench.sidecar import Switches
from bench.systems import STOKER, whole_volume
from bench.workloads.epochs import new_orders

_READERS = 2
_SETTLE_SECONDS = 5.0  # seconds for the final reports about the newly complete dataset


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for a time with readers, for times before and after without them, and for the cost of the readers."""
    corpus = env.scale.images
    with env.corpus("idle", corpus) as prefix, env.node(switches=Switches(observe=False)) as node:
        _, target = whole_volume(node, prefix)
        time.sleep(_SETTLE_SECONDS)
        quiet = [_while_quiet(env, node)]
        env.say("idle: warm pods read")
        orders, files = new_orders(corpus), 0
        start, before = time.monotonic(), tree_cpu_seconds(node.sidecar.pid)
        while time.monotonic() - start < env.scale.idle_seconds:
            files += read_epoch(target, next(orders), _READERS, corpus.total_bytes).files
        seconds, used = time.monotonic() - start, tree_cpu_seconds(node.sidecar.pid) - before
        quiet.append(_while_quiet(env, node))
    more = max(0.0, used - max(quiet) * seconds / env.scale.idle_seconds)  # more than the maximum of a quiet time
    case, wait = f"{_READERS} readers of a whole version", env.scale.idle_seconds
    yield Row("idle", case, STOKER, "CPU s", (used,), note=f"{files:,} files in {seconds:.0f} s")
    yield Row("idle", "nobody reads", STOKER, "CPU s", tuple(quiet), note=f"{wait:.0f} s each, before and after")
    yield Row("idle", case, STOKER, "CPU s more than when nobody reads", (more,))


def _while_quiet(env: Environment, node: Node) -> float:
    env.say("idle: nobody reads")
    before = tree_cpu_seconds(node.sidecar.pid)
    time.sleep(env.scale.idle_seconds)
    return tree_cpu_seconds(node.sidecar.pid) - before

"""What the sidecar does while pods read natively, with the observer off: nothing, and this counts it."""

import time
from collections.abc import Iterator, Sequence

from bench.environment import Environment
from bench.measure import tree_cpu_seconds
from bench.node import Node
from bench.readers import read_epoch
from bench.report import Row
from bench.sidecar import Switches
from bench.systems import STOKER, cold_volume
from bench.workloads.epochs import Orders
from stoker_api.dataset import MountMode

_READERS = 2
_SETTLE_SECONDS = 5.0  # for the last words about the dataset that just became whole


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for a while with readers, for one before and one after it without, and for what the readers cost."""
    corpus = env.scale.switched
    with env.corpus("idle", corpus) as prefix, env.node(switches=Switches(observe=False)) as node:
        volume, target = cold_volume(node, prefix)
        node.warm(volume)
        node.wait_mode(target, MountMode.NATIVE)
        time.sleep(_SETTLE_SECONDS)
        quiet = [_while_quiet(env, node)]
        env.say("idle: warm pods read")
        orders, files = Orders(corpus), 0
        start, before = time.monotonic(), tree_cpu_seconds(node.sidecar.pid)
        while time.monotonic() - start < env.scale.idle_seconds:
            files += read_epoch(target, orders.next(), _READERS, corpus.total_bytes).files
        seconds, used = time.monotonic() - start, tree_cpu_seconds(node.sidecar.pid) - before
        quiet.append(_while_quiet(env, node))
    case, wait = f"{_READERS} readers of a whole version", env.scale.idle_seconds
    yield Row("idle", case, STOKER, "CPU s", (used,), note=f"{files:,} files in {seconds:.0f} s")
    yield Row("idle", "nobody reads", STOKER, "CPU s", tuple(quiet), note=f"{wait:.0f} s each, before and after")
    yield Row("idle", case, STOKER, "CPU s more than when nobody reads", (more(used, seconds, quiet, wait),))


def more(used: float, seconds: float, quiet: Sequence[float], wait: float) -> float:
    """Return the CPU that was used beyond the most that the same time costs when nobody reads. Pure."""
    return max(0.0, used - max(quiet) * seconds / wait)


def _while_quiet(env: Environment, node: Node) -> float:
    env.say("idle: nobody reads")
    before = tree_cpu_seconds(node.sidecar.pid)
    time.sleep(env.scale.idle_seconds)
    return tree_cpu_seconds(node.sidecar.pid) - before

"""What the sidecar does while pods read natively: nothing, and this counts it."""

import time
from collections.abc import Iterator

from bench.bed import Bed
from bench.measure import tree_cpu_seconds
from bench.node import Node
from bench.readers import read_epoch
from bench.report import Row
from bench.subjects import STOKER, cold_volume
from bench.workloads.epochs import Orders
from stoker_api.dataset import MountMode

_READERS = 2
_SETTLE_SECONDS = 5.0  # for the last words about the dataset that just became whole


def measure(bed: Bed) -> Iterator[Row]:
    """Rows for a while with readers, and for one as long without."""
    corpus = bed.scale.switched
    with bed.corpus("idle", corpus) as prefix, bed.node() as node:
        volume, target = cold_volume(node, prefix)
        node.warm(volume)
        node.wait_mode(target, MountMode.NATIVE)
        time.sleep(_SETTLE_SECONDS)
        quiet = _while_quiet(bed, node)
        bed.say("idle: warm pods read")
        orders, files = Orders(corpus), 0
        start, before = time.monotonic(), tree_cpu_seconds(node.sidecar.pid)
        while time.monotonic() - start < bed.scale.idle_seconds:
            files += read_epoch(target, orders.next(), _READERS, corpus.total_bytes).files
        seconds, used = time.monotonic() - start, tree_cpu_seconds(node.sidecar.pid) - before
    case = f"{_READERS} readers of a whole version"
    yield Row("idle", case, STOKER, "CPU s of the sidecar", (used,), note=f"{files:,} files in {seconds:.0f} s")
    yield Row(
        "idle", "nobody reads", STOKER, "CPU s of the sidecar", (quiet,), note=f"in {bed.scale.idle_seconds:.0f} s"
    )


def _while_quiet(bed: Bed, node: Node) -> float:
    bed.say("idle: nobody reads")
    before = tree_cpu_seconds(node.sidecar.pid)
    time.sleep(bed.scale.idle_seconds)
    return tree_cpu_seconds(node.sidecar.pid) - before

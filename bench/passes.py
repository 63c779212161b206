"""What the operator's decisions cost by the size of the cluster: CPU seconds of one pass over a cluster that is full.

The worst that one Dataset can do: all nodes hold it, and as many pods are held for it as there are nodes. What is
decided on held pods is measured by bench/gate_passes.py.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.nodecache import NodeCache
from stoker_operator.core.dataset_decision import decide_datasets
from stoker_operator.core.resources import Resources
from stoker_operator.core.views import ClusterView, NodeView, PodView

SIZES = (400, 1000, 2000, 5000)  # nodes
_NOW = 1030.0  # seconds since the epoch, half a minute after the pods were made
_VERSION = "d" * 64


@dataclass(frozen=True)
class Cost:
    """CPU seconds of one pass of each kind, in a cluster of so many nodes."""

    nodes: int
    datasets: float
    first_fill: float  # of a Dataset that is to be on all nodes and is on none


def measure(sizes: Sequence[int]) -> list[Cost]:
    """Measure each size once."""
    return [_measured(size) for size in sizes]


def show(costs: Sequence[Cost], result: Path) -> str:
    """Write the figures as JSON, and return them as a table."""
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps([asdict(cost) for cost in costs], indent=1))
    rows = [("nodes = held pods", "Datasets", "first fill")]
    rows += [(f"{c.nodes:,}", f"{c.datasets:.2f} s", f"{c.first_fill:.2f} s") for c in costs]
    return "\n".join("  ".join(f"{cell:>18}" for cell in row) for row in rows)


def _measured(size: int) -> Cost:
    nodes = {f"n{index}": _node(f"n{index}") for index in range(size)}
    dataset, empty = _dataset(), ClusterView(datasets={"vision/set": _dataset()}, nodes=nodes)
    full = ClusterView(
        datasets={"vision/set": dataset},
        nodes=nodes,
        node_caches={name: _holding(name) for name in nodes},
        pods={f"vision/p{index}": _held(index) for index in range(size)},
    )
    return Cost(
        size,
        _seconds(lambda: decide_datasets(full, {}, _NOW)),
        _seconds(lambda: decide_datasets(empty, {}, _NOW)),
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _node(name: str) -> NodeView:
    return NodeView(name, allocatable=Resources(cpu_milli=4000, pods=110), sidecar_ready=True)


def _dataset() -> Dataset:
    spec = {"source": {"uri": "s3://bucket/"}, "cache": {"replicas": "all"}}
    metadata = {"namespace": "vision", "name": "set", "uid": "set"}
    return Dataset.model_validate(
        {"metadata": metadata, "spec": spec, "status": {"version": _VERSION, "bytes": 1 << 30}}
    )


def _holding(node: str) -> NodeCache:
    row = {"namespace": "vision", "name": "set", "uid": "set", "phase": "Warm", "version": _VERSION}
    size = {"bytes": 1 << 30, "warmBytes": 1 << 30}
    return NodeCache.model_validate({"metadata": {"name": node}, "status": {"datasets": [row | size]}})


def _held(index: int) -> PodView:
    return PodView(
        "vision",
        f"p{index}",
        uid=f"p{index}",
        requests=Resources(cpu_milli=1000, pods=1),
        gates=(names.GATE_WARM,),
        managed=True,
        datasets="set:/data",
        created=_NOW - 30.0,
    )

"""Builders of small clusters for tests of gating."""

from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.views.cluster import ClusterView, NodeView, PodView
from stoker_operator.core.views.resources import Resources

GIB = 2**30
VERSION = "d" * 64


def dataset(name: str = "imagenet", *, listed: bool = True, size: int = 2 * GIB, **spec: Any) -> Dataset:
    """Make a Dataset in namespace vision whose UID is its name."""
    status = {"version": VERSION, "bytes": size} if listed else {}
    metadata = {"namespace": "vision", "name": name, "uid": name}
    return Dataset.model_validate(
        {"metadata": metadata, "spec": {"source": {"uri": "s3://bucket/"}} | spec, "status": status}
    )


def holding(node: str, share: float = 1.0, name: str = "imagenet", **report: Any) -> NodeCache:
    """Make a NodeCache that holds a share of one Dataset."""
    phase = "Warm" if share == 1.0 else "Warming"
    row = {"namespace": "vision", "name": name, "uid": name, "phase": phase, "version": VERSION}
    row |= {"bytes": 2 * GIB, "warmBytes": int(share * 2 * GIB)} | report
    entry = {"namespace": "vision", "name": name, "uid": row["uid"], "source": {"uri": "s3://bucket/"}}
    spec = {"datasets": [entry]}
    return NodeCache.model_validate({"metadata": {"name": node}, "spec": spec, "status": {"datasets": [row]}})


def node(name: str, slots: int = 4, **fields: Any) -> NodeView:
    """Make a node with room for ``slots`` pods of one core."""
    allocatable = Resources(cpu_milli=1000 * slots, pods=110)
    return NodeView(name, allocatable=allocatable, sidecar_ready=True, **fields)


def held(name: str = "pod", **fields: Any) -> PodView:
    """Make a gated pod of one core that needs vision/imagenet. Its creation time is second 1000."""
    defaults: dict[str, Any] = {
        "requests": Resources(cpu_milli=1000, pods=1),
        "gates": (names.GATE_WARM,),
        "managed": True,
        "datasets": "imagenet:/data",
        "created": 1000.0,
    }
    return PodView(fields.pop("namespace", "vision"), name, **(defaults | fields))


def cluster(*parts: Dataset | NodeCache | NodeView | PodView) -> ClusterView:
    """Make a view of these objects."""
    return ClusterView(
        datasets={one.key: one for one in parts if isinstance(one, Dataset)},
        node_caches={one.key: one for one in parts if isinstance(one, NodeCache)},
        nodes={one.name: one for one in parts if isinstance(one, NodeView)},
        pods={one.key: one for one in parts if isinstance(one, PodView)},
    )

"""How each of many nodes decides what it takes from the bucket, and whom it asks for the rest: as the product. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from stoker_api.dataset import Dataset
from stoker_api.node_dataset import NodeDataset
from stoker_api.nodecache import NodeCache
from stoker_operator.core.dataset_decision import decide_datasets
from stoker_operator.core.resources import Resources
from stoker_operator.core.views import ClusterView, NodeView
from stoker_sidecar.fetcher.core.division import DividedFile, turns
from stoker_sidecar.fetcher.core.source_share import SourceShare
from stoker_sidecar.fetcher.download.node_division import Division

_VERSION = "d" * 64
_PORT = 8082
_NOW = 1000.0
_Turns = Callable[[SourceShare], bytes]


@dataclass(frozen=True)
class NodeDecisions:
    """What the node ``number`` decides by. ``asked``: the numbers of those whom it asks, by host:port.

    ``turns_of``: a byte an inode, where its group fetches so much.
    """

    number: int
    division: Division
    asked: Mapping[str, int]
    turns_of: _Turns


def decisions_of(nodes: int, files: Sequence[DividedFile]) -> list[NodeDecisions]:
    """Return what the operator tells the nodes of a Dataset that all are to have, and what they make of it."""
    numbers = {f"{_address(number)}:{_PORT}": number for number in range(nodes)}
    total = sum(file.size for file in files)

    @cache  # nodes of one group have the same
    def turns_of(share: SourceShare) -> bytes:
        return turns(files, files[-1].ino, total, share).files

    return [_decisions(number, entry, numbers, turns_of) for number, entry in enumerate(_entries(nodes))]


def _decisions(number: int, entry: NodeDataset, numbers: Mapping[str, int], turns_of: _Turns) -> NodeDecisions:
    share = SourceShare(entry.groups.first, entry.groups.width)
    division = Division(entry.version, entry.peers, entry.position, entry.links, share)
    return NodeDecisions(number, division, {peer: numbers[peer] for peer in division.asked}, turns_of)


def _entries(nodes: int) -> Iterator[NodeDataset]:
    """Yield the entry of the Dataset in each node's NodeCache, as the operator decides it."""
    names = [f"n{number:06}" for number in range(nodes)]
    view = ClusterView(
        datasets={"herd/set": _dataset()},
        nodes={name: _node(name) for name in names},
        node_caches={name: _cache(name, number) for number, name in enumerate(names)},
    )
    written = {write.node.name: write.spec for write in decide_datasets(view, {}, _NOW).nodes.writes}
    for name in names:
        (entry,) = written[name].datasets
        yield entry


def _dataset() -> Dataset:
    spec = {"source": {"uri": "s3://bucket/"}, "cache": {"replicas": "all"}, "warm": {"policy": "Eager"}}
    metadata = {"namespace": "herd", "name": "set", "uid": "set"}
    return Dataset.model_validate(
        {"metadata": metadata, "spec": spec, "status": {"version": _VERSION, "bytes": 1 << 30}}
    )


def _node(name: str) -> NodeView:
    return NodeView(name, allocatable=Resources(cpu_milli=4000, pods=110), sidecar_ready=True)


def _cache(name: str, number: int) -> NodeCache:
    disk = {"capacityBytes": 1 << 40, "freeBytes": 1 << 40}
    status = {"address": f"{_address(number)}:{_PORT}", "disk": disk}
    return NodeCache.model_validate({"metadata": {"name": name}, "status": status})


def _address(number: int) -> str:
    return f"10.0.{number // 250}.{number % 250 + 1}"

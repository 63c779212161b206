"""How each of many nodes decides what it takes from the bucket: as the product does, and by a grid. Pure."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from bench.herd.grid import neighbours
from bench.herd.grid_turns import grid_takes, grid_turns
from stoker_api.dataset import Dataset
from stoker_api.node_dataset import NodeDataset
from stoker_api.nodecache import NodeCache
from stoker_operator.core.dataset_decision import decide_datasets
from stoker_operator.core.resources import Resources
from stoker_operator.core.views import ClusterView, NodeView
from stoker_sidecar.fetcher.core.division import DividedFile, takes, turns

_VERSION = "d" * 64
_PORT = 8082
_NOW = 1000.0
# Seconds after which a node that nothing reaches any more asks the bucket for the shares of more others.
_LEVEL_SECONDS = 3.0


@dataclass(frozen=True)
class NodeDecisions:
    """What one node decides by. ``neighbours``: the numbers of the nodes that it asks; ``upstream``: see NodeDataset.

    ``turn_of``: a byte an inode. ``takes``: of those that get on, and the seconds for which nothing has come beyond all
    patience; returns by turn whether it is fetched from the bucket.
    """

    neighbours: tuple[int, ...]
    upstream: tuple[int, ...]
    turn_of: bytes
    takes: Callable[[Collection[int], float], bytes]


def divided_by_the_operator(nodes: int, files: Sequence[DividedFile]) -> list[NodeDecisions]:
    """Return what the operator tells the nodes of a Dataset that all are to have, and what they make of it."""
    numbers = {f"{_address(number)}:{_PORT}": number for number in range(nodes)}
    total = sum(file.size for file in files)
    turn_of = bytes(turns(files, files[-1].ino, total))
    found = []
    for number, entry in enumerate(_entries(nodes)):
        known = tuple(numbers[peer] for peer in entry.peers)
        group = (*known[: entry.position], number, *known[entry.position :])
        upstream = tuple(numbers[peer] for peer in entry.upstream)
        found.append(NodeDecisions(known, upstream, turn_of, partial(_takes, entry.position, group)))
    return found


def _takes(position: int, group: tuple[int, ...], alive: Collection[int], stuck: float) -> bytes:
    others = () if stuck else [at for at, number in enumerate(group) if number in alive]
    return takes(position, len(group), others)


def divided_by_a_grid(nodes: int, files: Sequence[DividedFile]) -> list[NodeDecisions]:
    """Return what nodes of a grid decide by."""
    count = len(files)

    def takes_of(position: int, alive: Collection[int], stuck: float) -> bytes:
        level = 1 + int(stuck / _LEVEL_SECONDS) if stuck else 0
        return grid_takes(position, nodes, () if stuck else alive, level)

    return [
        NodeDecisions(
            neighbours(position, nodes),
            (),
            bytes(grid_turns(files, files[-1].ino, count, position, nodes)),
            partial(takes_of, position),
        )
        for position in range(nodes)
    ]


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

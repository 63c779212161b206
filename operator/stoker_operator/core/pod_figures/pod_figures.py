"""Select the figures of a node's answer, and their age. Pure.

A node may be malicious: its rows count only for pods that the API server has on that node. Only those rows are
validated, so the cost of a node with a hundred thousand rows is that of its pods.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from stoker_api.jobs.pod_figures import PodFigures
from stoker_api.meta import Model, ObjectMeta, read_bounded
from stoker_api.node_caches.node_hardware import NodeHardware
from stoker_api.node_caches.node_storage import NodeMount
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.times import parse_time

M = TypeVar("M", bound=Model)
Row = Mapping[str, Any]
MOST_SENTENCE = 300
_MOST_MOUNTS = 64  # of one pod


class ReadablePod(NamedTuple):
    """A pod from the API server."""

    namespace: str
    name: str
    uid: str
    node: str


@dataclass(frozen=True)
class NodeWord:
    """One node's rows, as JSON, ``age`` seconds old. ``workloads``: by pod and UID. ``mounts``: by the pod's UID.

    ``trouble``: why its sidecar did not answer; empty: it did.
    """

    workloads: Mapping[tuple[str, str], Row] = field(default_factory=dict)
    mounts: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    hardware: Row | None = None
    age: float = 0.0
    trouble: str = ""


def readable_pod(raw: Mapping[str, Any]) -> ReadablePod | None:
    """Parse a pod from the API server. None: it has no node, or has ended."""
    meta, node = raw["metadata"], (raw.get("spec") or {}).get("nodeName")
    ended = (raw.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return None if not node or ended else ReadablePod(meta["namespace"], meta["name"], meta["uid"], node)


def word_of(answer: Row) -> NodeWord:
    """Index a node's answer, or the status of its NodeCache."""
    workloads, mounts = _rows(answer.get("workloads")), _rows(answer.get("mounts"))
    by_uid: dict[str, list[Row]] = {}
    for mount in mounts:
        by_uid.setdefault(str(mount.get("podUid")), []).append(mount)
    hardware = answer.get("hardware")
    return NodeWord(
        {(str(row.get("pod")), str(row.get("uid"))): row for row in workloads},
        by_uid,
        hardware if isinstance(hardware, Mapping) else None,
    )


def _rows(given: Any) -> list[Row]:
    return [row for row in given if isinstance(row, Mapping)] if isinstance(given, list) else []


def pod_figures(pods: Iterable[ReadablePod], words: Mapping[str, NodeWord], now: float) -> list[PodFigures]:
    """Return the figures of these pods, by namespace and name. ``now``: seconds since the epoch."""
    found = (_of(pod, words[pod.node], now) for pod in sorted(pods) if pod.node in words)
    return [one for one in found if one is not None]


def _of(pod: ReadablePod, word: NodeWord, now: float) -> PodFigures | None:
    raw = word.workloads.get((f"{pod.namespace}/{pod.name}", pod.uid))
    row = None if raw is None else _read(NodeWorkload, raw)
    if row is None:
        return None
    mounts = [_read(NodeMount, one) for one in word.mounts.get(pod.uid, ())[:_MOST_MOUNTS]]
    age = max(0.0, now - parse_time(row.figures_at)) if word.trouble and row.figures_at else word.age
    return PodFigures(
        metadata=ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid),
        node=pod.node,
        age_seconds=round(age, 1),
        message=f"node {pod.node}: {word.trouble}"[:MOST_SENTENCE] if word.trouble else "",
        workload=row.model_copy(update={"figures_at": None}),
        mounts=tuple(one for one in mounts if one is not None and one.pod_namespace in ("", pod.namespace)),
        hardware=None if word.hardware is None else _read(NodeHardware, word.hardware),
    )


def _read(model: type[M], raw: Row) -> M | None:
    """Parse a row of a node. None: it is invalid."""
    try:
        return read_bounded(model, raw)
    except ValidationError:
        return None

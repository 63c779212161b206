"""Spans of a pod, and the interface that sends them."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class PodSpan:
    """A step of a pod's start; seconds since the epoch. ``root``: the parent of all other spans of its trace."""

    name: str
    start: float
    end: float
    attributes: Mapping[str, str]
    error: str = ""
    root: bool = False


class SpanSink(Protocol):
    """Sends spans in the background. It never blocks or raises, and drops spans that it cannot send."""

    def emit(self, pod_uid: str, spans: Sequence[PodSpan]) -> None:
        """Send spans of a pod's trace, whose id is the pod's UID."""

    def close(self) -> None:
        """Send the rest for at most two seconds."""


def pod_attributes(namespace: str, name: str, uid: str) -> dict[str, str]:
    """Return a pod's attributes by OpenTelemetry's semantic conventions."""
    return {"k8s.namespace.name": namespace, "k8s.pod.name": name, "k8s.pod.uid": uid}


def put_bounded(known: "OrderedDict[str, V]", key: str, value: V, most: int) -> None:
    """Put a value, and drop the oldest ones above ``most``."""
    known[key] = value
    if len(known) > most:
        known.popitem(last=False)

"""Spans of held pods, of mounts and of first reads, and the interface that sends them to a collector."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

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


_MOST_HELD = 50_000  # held pods with known times


class GateSpans:
    """Sends the trace of a pod's hold when the pod is released. All times are seconds since the epoch."""

    def __init__(self, sink: SpanSink) -> None:
        self._sink: Final = sink
        self._decided: Final[OrderedDict[str, float]] = OrderedDict()  # by pod's UID: the first decision
        self._warm: Final[OrderedDict[str, float]] = OrderedDict()  # the decision to release

    def decided(self, uid: str, now: float) -> None:
        """Note a decision about a pod's nodes. The first one counts."""
        if uid not in self._decided:
            put_bounded(self._decided, uid, now, _MOST_HELD)

    def warm(self, uid: str, now: float) -> None:
        """Note the decision to release a pod: its nodes are warm, or its wait is over."""
        self.decided(uid, now)
        put_bounded(self._warm, uid, now, _MOST_HELD)

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._decided.pop(uid, None)
        self._warm.pop(uid, None)

    def released(
        self, namespace: str, name: str, uid: str, held_from: float, now: float, facts: Mapping[str, str]
    ) -> None:
        """Send the trace of a pod that was just released. ``facts``: more attributes."""
        decided = max(held_from, self._decided.get(uid, now))
        warm = max(decided, self._warm.get(uid, now))
        end = max(warm, now)
        about = pod_attributes(namespace, name, uid)
        self.forget(uid)
        spans = (
            PodSpan("pod gated", held_from, end, {**about, **facts}, root=True),
            PodSpan("placement decided", held_from, decided, about),
            PodSpan("node warmed", decided, warm, about),
            PodSpan("released", warm, end, about),
        )
        self._sink.emit(uid, spans)


_MOST_UNREAD = 1024  # pods that have not read yet


class MountSpans:
    """Sends spans of mounts, and of the time to a pod's first observed read."""

    def __init__(self, sink: SpanSink, node: str, clock: Callable[[], float] = time.time) -> None:
        """Keep the spans of pods that are not read yet. ``clock`` returns seconds since the epoch."""
        self._sink: Final = sink
        self._node: Final = node
        self._clock: Final = clock
        self._unread: Final[OrderedDict[str, tuple[float, dict[str, str]]]] = OrderedDict()  # by pod's UID

    @contextmanager
    def mounting(self, namespace: str, pod: str, uid: str, dataset: str) -> Iterator[None]:
        """Time the mount of a Dataset inside the context. An error ends the span, and goes on."""
        start = self._clock()
        about = pod_attributes(namespace, pod, uid) | {"k8s.node.name": self._node, "stoker.dataset": dataset}
        try:
            yield
        except Exception as error:  # of any kind: it ends the span, and is raised again
            self._sink.emit(uid, [PodSpan("mounted", start, self._clock(), about, error=str(error) or repr(error))])
            raise
        end = self._clock()
        self._sink.emit(uid, [PodSpan("mounted", start, end, about)])
        put_bounded(self._unread, uid, (end, about), _MOST_UNREAD)

    def read(self, uid: str, seconds_ago: float) -> None:
        """Note an observed open or read of a pod. The first one after a mount counts."""
        if uid in self._unread:
            mounted, about = self._unread.pop(uid)
            end = max(mounted, self._clock() - max(0.0, seconds_ago))
            self._sink.emit(uid, [PodSpan("first byte", mounted, end, about)])


log = logging.getLogger(__name__)
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def open_tracing(service: str, environment: Mapping[str, str]) -> SpanSink | None:
    """Return where to send spans of ``service``, or None if traces are off.

    OpenTelemetry's own variables OTEL_* set the rest. Without an endpoint, nothing of OpenTelemetry is imported.
    """
    disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if disabled or not any(environment.get(name) for name in _ENDPOINTS):
        return None
    try:
        from stoker_kube.tracing.otlp import OtlpSink

        return OtlpSink(service, own_name="OTEL_SERVICE_NAME" not in environment)
    except ImportError as error:
        log.warning("traces are off: install stoker[tracing], or unset OTEL_EXPORTER_OTLP_ENDPOINT (%s)", error)
    except Exception as error:  # noqa: BLE001 -- traces never stop a process
        log.warning("traces are off: check the variables OTEL_* (%s)", error)
    return None

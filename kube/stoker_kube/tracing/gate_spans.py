"""Spans of held pods, for the operator's leader."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from stoker_kube.tracing.spans import PodSpan, SpanSink, pod_attributes, put_bounded

_MOST = 50_000  # held pods with known times


class GateSpans:
    """Sends the trace of a pod's hold when the pod is released. All times are seconds since the epoch."""

    def __init__(self, sink: SpanSink) -> None:
        self._sink: Final = sink
        self._decided: Final[OrderedDict[str, float]] = OrderedDict()  # by pod's UID: the first decision
        self._warm: Final[OrderedDict[str, float]] = OrderedDict()  # the decision to release

    def decided(self, uid: str, now: float) -> None:
        """Note a decision about a pod's nodes. The first one counts."""
        if uid not in self._decided:
            put_bounded(self._decided, uid, now, _MOST)

    def warm(self, uid: str, now: float) -> None:
        """Note the decision to release a pod: its nodes are warm, or its wait is over."""
        self.decided(uid, now)
        put_bounded(self._warm, uid, now, _MOST)

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

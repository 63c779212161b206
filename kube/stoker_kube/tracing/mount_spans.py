"""Spans of mounts and first reads, for a node's agent."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from stoker_kube.tracing.spans import PodSpan, SpanSink, pod_attributes, put_bounded

_MOST = 1024  # pods that have not read yet


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
        put_bounded(self._unread, uid, (end, about), _MOST)

    def read(self, uid: str, seconds_ago: float) -> None:
        """Note an observed open or read of a pod. The first one after a mount counts."""
        if uid in self._unread:
            mounted, about = self._unread.pop(uid)
            end = max(mounted, self._clock() - max(0.0, seconds_ago))
            self._sink.emit(uid, [PodSpan("first byte", mounted, end, about)])

"""Sends spans by OTLP over HTTP, with OpenTelemetry's SDK."""

import logging
import threading
from collections.abc import Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from stoker_api.meta import cut_to_bytes
from stoker_kube.tracing.spans import PodSpan

log = logging.getLogger(__name__)
_MOST_VALUE = 256  # bytes of an attribute: longer than a name in Kubernetes
_CLOSE_SECONDS = 2.0


class _PodIds(RandomIdGenerator):
    """Returns the ids of a pod's root span if ``root`` is set, else random ones."""

    root: tuple[int, int] | None = None

    def generate_trace_id(self) -> int:
        return super().generate_trace_id() if self.root is None else self.root[0]

    def generate_span_id(self) -> int:
        return super().generate_span_id() if self.root is None else self.root[1]


class OtlpSink:
    """A SpanSink with a bounded queue and a thread. Call it from one thread.

    A trace's id is the pod's UID, and the root span's id is the UID's second half, so that processes need not exchange
    ids. All traces are sent: a UUID has constant bits that would bias a sampler by trace id.
    """

    def __init__(self, service: str, *, own_name: bool = True) -> None:
        """Start an exporter. ``own_name``: name the service ``service``, because OTEL_SERVICE_NAME is not set."""
        self._ids: Final = _PodIds()
        self._provider: Final = TracerProvider(
            sampler=ALWAYS_ON,
            id_generator=self._ids,
            resource=Resource.create({SERVICE_NAME: service} if own_name else {}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer: Final = self._provider.get_tracer("stoker")

    def emit(self, pod_uid: str, spans: Sequence[PodSpan]) -> None:
        """Queue spans of a pod's trace. Nothing is sent of a pod whose UID is not a UUID."""
        ids = pod_ids(pod_uid)
        if ids is None:
            return
        try:
            for span in spans:
                self._emit(span, ids)
        except Exception as error:  # noqa: BLE001 -- traces never stop a release or a mount
            log.warning("spans of pod %s are lost: %r", pod_uid, error)

    def _emit(self, span: PodSpan, ids: tuple[int, int]) -> None:
        parent = SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
        self._ids.root = ids if span.root else None
        made = self._tracer.start_span(
            span.name,
            Context() if span.root else set_span_in_context(NonRecordingSpan(parent), Context()),
            SpanKind.INTERNAL,
            {name: cut_to_bytes(value, _MOST_VALUE) for name, value in span.attributes.items() if value},
            start_time=_nanoseconds(span.start),
        )
        if span.error:
            made.set_status(Status(StatusCode.ERROR, cut_to_bytes(span.error, _MOST_VALUE)))
        made.end(_nanoseconds(span.end))

    def close(self) -> None:
        """Send the rest, for at most two seconds: a dead collector delays no restart."""
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)


def pod_ids(uid: str) -> tuple[int, int] | None:
    """Return the ids of a pod's trace and its root span; None for a UID that is not a UUID."""
    digits = uid.replace("-", "")
    try:
        trace = int(digits, 16) if len(digits) == 32 else 0
    except ValueError:
        return None
    span = trace & (2**64 - 1)
    return (trace, span) if span else None


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)

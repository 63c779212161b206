"""An OTLP collector over HTTP that keeps the spans it receives."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class OtlpCollector(http.server.ThreadingHTTPServer):
    """Its URL, its spans in order of arrival, and the services that sent them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Span] = []
        self.services: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def names(self, trace: str) -> list[str]:
        """Return the names of a trace's spans by their start."""
        spans = (span for span in self.spans if span.trace_id.hex() == trace)
        return [span.name for span in sorted(spans, key=lambda span: (span.start_time_unix_nano, not _is_root(span)))]

    def take(self, body: bytes) -> None:
        for sender in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.services |= {one.value.string_value for one in sender.resource.attributes if one.key == "service.name"}
            self.spans += [span for scope in sender.scope_spans for span in scope.spans]


def _is_root(span: Span) -> bool:
    return not span.parent_span_id


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, OtlpCollector)
        assert self.path == "/v1/traces"
        self.server.take(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(ExportTraceServiceResponse().SerializeToString())

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def otlp_collector() -> Iterator[OtlpCollector]:
    with OtlpCollector() as collector:
        serving = threading.Thread(target=collector.serve_forever, daemon=True)
        serving.start()
        yield collector
        collector.shutdown()
        serving.join()

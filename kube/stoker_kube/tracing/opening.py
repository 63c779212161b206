"""Opens traces if the environment names a collector."""

import logging
from collections.abc import Mapping

from stoker_kube.tracing.spans import SpanSink

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

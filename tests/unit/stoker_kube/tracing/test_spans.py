"""Spans of held pods and of mounts, and the switch for traces."""

import subprocess
import sys
from collections.abc import Sequence

import pytest

from stoker_kube.tracing.otlp import pod_ids
from stoker_kube.tracing.spans import GateSpans, MountSpans, PodSpan, open_tracing

UID = "5e8b1c2d-0000-4000-8000-00000000002a"


class KeptSpans:
    """Keeps spans instead of sending them."""

    def __init__(self) -> None:
        self.spans: list[PodSpan] = []

    def emit(self, pod_uid: str, spans: Sequence[PodSpan]) -> None:
        assert pod_uid == UID
        self.spans += spans

    def close(self) -> None:
        """Do nothing."""

    @property
    def times(self) -> dict[str, tuple[float, float]]:
        return {span.name: (span.start, span.end) for span in self.spans}


def test_a_hold_is_divided_at_its_decisions() -> None:
    sink = KeptSpans()
    spans = GateSpans(sink)
    for now in (103.0, 105.0):
        spans.decided(UID, now)
    spans.warm(UID, 140.0)
    spans.released("vision", "p", UID, 100.0, 141.0, {"stoker.reason": "Released"})
    assert sink.times == {
        "pod gated": (100.0, 141.0),
        "placement decided": (100.0, 103.0),
        "node warmed": (103.0, 140.0),
        "released": (140.0, 141.0),
    }
    assert [span.name for span in sink.spans if span.root] == ["pod gated"]


def test_unknown_decisions_of_an_earlier_leader_leave_spans_in_order() -> None:
    sink = KeptSpans()
    GateSpans(sink).released("vision", "p", UID, 100.0, 90.0, {})
    assert all(span.start <= span.end for span in sink.spans)


def test_only_the_first_read_after_a_mount_is_a_span() -> None:
    sink, now = KeptSpans(), iter([10.0, 12.0, 15.0, 16.0])
    spans = MountSpans(sink, "node-1", lambda: next(now))
    spans.read(UID, 0.0)
    with spans.mounting("vision", "p", UID, "vision/imagenet"):
        pass
    spans.read(UID, 1.0)
    spans.read(UID, 0.0)
    assert sink.times == {"mounted": (10.0, 12.0), "first byte": (12.0, 14.0)}


def test_a_failed_mount_has_its_error_and_raises_it() -> None:
    sink = KeptSpans()
    with pytest.raises(OSError, match="no disk"), MountSpans(sink, "n").mounting("vision", "p", UID, "vision/imagenet"):
        raise OSError("no disk")
    assert [(span.name, span.error) for span in sink.spans] == [("mounted", "no disk")]


@pytest.mark.parametrize(
    ("uid", "ids"),
    [
        (UID, (0x5E8B1C2D00004000800000000000002A, 0x800000000000002A)),
        ("u1", None),
        ("z" * 32, None),
        ("", None),
        ("0" * 32, None),
    ],
)
def test_a_pod_s_uid_is_the_id_of_its_trace(uid: str, ids: tuple[int, int] | None) -> None:
    assert pod_ids(uid) == ids


@pytest.mark.parametrize(
    "environment",
    [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_SDK_DISABLED": "true"}],
)
def test_traces_are_off_without_an_endpoint(environment: dict[str, str]) -> None:
    assert open_tracing("test", environment) is None


def test_an_operator_without_traces_does_not_import_opentelemetry() -> None:
    code = "import sys, stoker_operator.main; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.expected_logs("install stoker.tracing")
def test_a_missing_extra_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stoker_kube.tracing.otlp", None)
    assert open_tracing("test", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}) is None

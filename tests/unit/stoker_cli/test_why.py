"""How `stoker why` tells the truth of a pod in sentences with numbers."""

from typing import Any

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.release import ReleaseNode, ReleaseRecord
from stoker_cli.awaited import awaited_datasets
from stoker_cli.why import explain

RELEASE = ReleaseRecord(
    reason="Released",
    message="node-a is warm.",
    held_since="2026-01-01T00:00:00+00:00",
    released_at="2026-01-01T00:01:05+00:00",
    mode="Prefer",
    nodes=(ReleaseNode(name="node-a", warm_bytes=512, total_bytes=1024),),
)


def pod(
    annotations: dict[str, str] | None = None, *, managed: bool = True, gated: bool = False, node: str = ""
) -> dict[str, Any]:
    labels = {names.LABEL_MANAGED: "true"} if managed else {}
    spec: dict[str, Any] = {"schedulingGates": [{"name": names.GATE_WARM}]} if gated else {}
    return {
        "metadata": {"name": "p", "namespace": "n", "labels": labels, "annotations": annotations or {}},
        "spec": spec | ({"nodeName": node} if node else {}),
        "status": {"phase": "Running" if node else "Pending"},
    }


def text(subject: dict[str, Any]) -> str:
    return " ".join(explain(subject, []).lines)


def test_a_pod_without_the_annotation_is_none_of_stokers_business() -> None:
    assert "no annotation stoker.dev/datasets" in text(pod(managed=False))


def test_a_pod_that_the_webhook_never_saw_is_told_to_be_made_again() -> None:
    assert "Delete the pod" in text(pod({names.ANNOTATION_DATASETS: "a:/a"}, managed=False))


def test_a_held_pod_says_what_it_waits_for() -> None:
    held = explain(pod({names.ANNOTATION_WAITING: "node-a is 63 % warm."}, gated=True), [])
    assert (held.state, held.lines) == ("Held", ("It is held: node-a is 63 % warm.",))


def test_a_held_pod_shows_how_far_its_dataset_is() -> None:
    status = {"phase": "Warming", "cachedPercent": "63%", "warmNodes": "0/1", "eta": "40s"}
    raw = {"metadata": {"namespace": "n", "name": "d"}, "spec": {"source": {"uri": "s3://bucket/"}}, "status": status}
    held = explain(pod(gated=True), [], awaited=[Dataset.model_validate(raw)])
    assert held.lines[1] == (
        "Dataset n/d: Warming, 63% cached on the nodes that should have it, whole on 0/1 nodes, ETA 40s."
    )


def test_only_a_held_pod_waits_for_datasets() -> None:
    annotations = {names.ANNOTATION_DATASETS: "a@0123456789ab:/a, other/b:/b"}
    assert awaited_datasets(pod(annotations, gated=True)) == [("n", "a"), ("other", "b")]
    assert awaited_datasets(pod(annotations)) == []


def test_a_running_pod_says_how_long_it_was_held_and_how_warm_its_node_was() -> None:
    released = explain(pod({names.ANNOTATION_RELEASED: RELEASE.model_dump_json(by_alias=True)}, node="node-a"), [])
    assert released.held_seconds == 65
    assert "held for 1m5s" in released.lines[0]
    assert released.lines[1] == "It landed on node-a, which was 50 % warm (512 B of 1.0 KiB) at release."


def test_a_released_pod_without_a_node_repeats_the_schedulers_words() -> None:
    waiting = pod({names.ANNOTATION_RELEASED: RELEASE.model_dump_json(by_alias=True)})
    waiting["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "message": "0/2 nodes: Insufficient cpu"}
    ]
    assert "Insufficient cpu" in text(waiting)


def test_an_annotation_of_another_version_does_not_break_the_explanation() -> None:
    assert "never held" in text(pod({names.ANNOTATION_RELEASED: "{}"}, node="node-a"))


def test_events_are_told_in_the_order_of_their_time() -> None:
    events = [
        {"reason": "Released", "message": "b", "lastTimestamp": "2026-01-01T00:00:02Z"},
        {"reason": "WaitingForData", "message": "a", "eventTime": "2026-01-01T00:00:01.000000Z"},
    ]
    assert [event["reason"] for event in explain(pod(gated=True), events).events] == ["WaitingForData", "Released"]

"""The command `stoker why`."""

from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.release import ReleaseNode, ReleaseRecord
from stoker_cli.pods.why import awaited_datasets, by_urgency, explain

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


def test_a_pod_without_the_annotation_is_not_managed() -> None:
    assert "no annotation stoker.dev/datasets" in text(pod(managed=False))


def test_a_pod_that_the_webhook_missed_must_be_recreated() -> None:
    assert "Delete the pod" in text(pod({names.ANNOTATION_DATASETS: "a:/a"}, managed=False))


def test_a_held_pod_has_the_reason_of_its_wait() -> None:
    held = explain(pod({names.ANNOTATION_WAITING: "node-a is 63 % warm."}, gated=True), [])
    assert (held.state, held.lines) == (
        "Held",
        ("It is held: node-a is 63 % warm.", "To release it now: stoker -n n release p"),
    )


def test_a_held_pod_has_the_progress_of_its_dataset() -> None:
    status = {"phase": "Warming", "cachedPercent": "63%", "warmNodes": "0/1", "eta": "40s"}
    raw = {"metadata": {"namespace": "n", "name": "d"}, "spec": {"source": {"uri": "s3://bucket/"}}, "status": status}
    held = explain(pod(gated=True), [], awaited=[Dataset.model_validate(raw)])
    assert held.lines[1] == ("Dataset n/d: Warming, 63% cached on its nodes, complete on 0/1 nodes, ETA 40s.")


def test_only_a_held_pod_waits_for_datasets() -> None:
    annotations = {names.ANNOTATION_DATASETS: "a@0123456789ab:/a, other/b:/b"}
    assert awaited_datasets(pod(annotations, gated=True)) == [("n", "a"), ("other", "b")]
    assert awaited_datasets(pod(annotations)) == []


def test_a_running_pod_has_its_hold_time_and_the_warmth_of_its_node() -> None:
    released = explain(pod({names.ANNOTATION_RELEASED: RELEASE.model_dump_json(by_alias=True)}, node="node-a"), [])
    assert released.held_seconds == 65
    assert "held for 1m5s" in released.lines[0]
    assert released.lines[1] == "It runs on node-a, which was 50 % warm (512 B of 1.0 KiB) at release."


def test_a_finished_pod_has_the_version_that_it_read_and_the_warmth_of_its_node() -> None:
    finished = pod({names.ANNOTATION_RELEASED: RELEASE.model_dump_json(by_alias=True)}, node="node-a")
    finished["status"]["phase"] = "Succeeded"
    attributes = {names.CSI_ATTRIBUTE_DATASET: "imagenet", names.CSI_ATTRIBUTE_VERSION: "0123456789abcdef" * 4}
    finished["spec"]["volumes"] = [{"name": "v", "csi": {"driver": names.CSI_DRIVER, "volumeAttributes": attributes}}]
    assert explain(finished, []).lines[1:] == (
        "It ran on node-a, which was 50 % warm (512 B of 1.0 KiB) at release.",
        "It read version 0123456789ab of the Dataset n/imagenet.",
    )


def test_a_released_pod_without_a_node_has_the_message_of_the_scheduler() -> None:
    waiting = pod({names.ANNOTATION_RELEASED: RELEASE.model_dump_json(by_alias=True)})
    waiting["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "message": "0/2 nodes: Insufficient cpu"}
    ]
    assert "Insufficient cpu" in text(waiting)


def test_an_annotation_of_another_version_does_not_break_the_explanation() -> None:
    assert "never held" in text(pod({names.ANNOTATION_RELEASED: "{}"}, node="node-a"))


def test_a_failed_dataset_of_a_held_pod_has_its_problem() -> None:
    listed = {"type": "Listed", "status": "False", "reason": "BucketNotFound", "message": "there is no bucket 'typo'"}
    failed = Dataset.model_validate(
        {
            "metadata": {"namespace": "n", "name": "imagenet"},
            "spec": {"source": {"uri": "s3://typo/"}},
            "status": {"phase": "Failed", "conditions": [listed | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }
    )
    lines = explain(pod(gated=True), [], awaited=[failed]).lines
    assert "Dataset n/imagenet: Failed. there is no bucket 'typo'" in lines


def test_events_are_sorted_by_time() -> None:
    events = [
        {"reason": "Released", "message": "b", "lastTimestamp": "2026-01-01T00:00:02Z"},
        {"reason": "WaitingForData", "message": "a", "eventTime": "2026-01-01T00:00:01.000000Z"},
    ]
    assert [event["reason"] for event in explain(pod(gated=True), events).events] == ["WaitingForData", "Released"]


def test_an_annotation_of_its_job_is_named() -> None:
    job = {
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "n", "annotations": {names.ANNOTATION_DATASETS: "a:/a"}},
    }
    lines = explain(pod(managed=False), [], owners=[job]).lines
    assert lines[1].startswith("Job n/j has the annotation stoker.dev/datasets in its own metadata")


def test_held_pods_of_a_job_come_first() -> None:
    done = pod(node="a") | {"status": {"phase": "Succeeded"}}
    running, held = pod(node="a"), pod(gated=True)
    assert by_urgency([done, running, held]) == [held, running, done]

"""The parts of a pod's sampling that the webhook forwards, and those that it rejects."""

import json
from typing import Any

import jsonpatch

from stoker_api import names
from stoker_api.jobs.pod_annotations import Refusal
from stoker_api.jobs.sampling import Sampling
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_operator.core.jobs.job_status import order_verdict
from stoker_operator.core.jobs.jobs import make_job
from stoker_operator.core.pods.injection import decide_injection
from tests.support.cases import cases
from tests.unit.stoker_operator.core.test_injection import CATALOG, NAMESPACE, make_pod
from tests.unit.stoker_operator.training import training_job


def sampled(**annotations: str) -> dict[str, Any]:
    pod = make_pod()
    pod["metadata"]["annotations"] |= annotations
    return pod


def attribute(pod: dict[str, Any]) -> Any:
    patch = decide_injection(pod, NAMESPACE, CATALOG)
    assert not isinstance(patch, Refusal), patch
    changed = jsonpatch.apply_patch(pod, list(patch))
    assert decide_injection(changed, NAMESPACE, CATALOG) == ()
    csi = next(one["csi"] for one in changed["spec"]["volumes"] if "csi" in one)
    return json.loads(csi["volumeAttributes"].get(names.CSI_ATTRIBUTE_SAMPLING, "null"))


def test_a_pods_sampling_reaches_its_volume_with_its_rank() -> None:
    pod = sampled(
        **{names.ANNOTATION_SAMPLING: '{"seed": 3, "ranks": 8, "ranksPerPod": 2}'},
        **{"batch.kubernetes.io/job-completion-index": "3"},
    )
    assert attribute(pod) == {"seed": 3, "ranks": 8, "ranksPerPod": 2, "rank": 6}


def test_a_pod_that_says_nothing_has_no_order() -> None:
    assert attribute(make_pod()) is None


@cases(
    "text, words",
    what_is_no_document=("{", "stoker.dev/sampling is wrong"),
    a_dataset_that_the_pod_does_not_have=('{"dataset": "other"}', "the Dataset 'other', which the pod does not have"),
)
def test_a_wrong_sampling_is_refused(text: str, words: str) -> None:
    refusal = decide_injection(sampled(**{names.ANNOTATION_SAMPLING: text}), NAMESPACE, CATALOG)
    assert isinstance(refusal, Refusal)
    assert words in refusal.sentence


def test_a_trainingjobs_workers_say_their_sampling() -> None:
    training = training_job(workers=3, sampling={"seed": 5, "sampler": "torch-distributed"})
    annotations = make_job(training)["spec"]["template"]["metadata"]["annotations"]
    assert json.loads(annotations[names.ANNOTATION_SAMPLING]) == {"seed": 5, "ranks": 3}
    assert Sampling.model_validate_json(annotations[names.ANNOTATION_SAMPLING]).ranks == 3


def row(order: str, agreement: int | None = None, message: str = "") -> NodeWorkload:
    said = {"order": order, "orderAgreement": agreement, "orderMessage": message}
    return NodeWorkload.model_validate({"pod": "vision/a", "uid": "u"} | said)


def test_one_worker_that_reads_otherwise_makes_the_order_wrong() -> None:
    status, reason, message = order_verdict([row("Known", 100), row("Wrong", 3, "read 33 was train/x.jpg")])
    assert (status, reason) == ("False", "OrderWrong")
    assert message.endswith("the hint is dropped: read 33 was train/x.jpg")


def test_the_least_agreement_is_told() -> None:
    status, _, message = order_verdict([row("Known", 100), row("Known", 98), row("")])
    assert (status, message) == ("True", "98 % of the last reads of 2 of 3 workers came as sampling says")


def test_a_plug_in_that_is_left_out_is_told() -> None:
    why = "the order plug-in mine is left out: it failed: KeyError"
    rows = [row("Unknown", message="3 reads were seen, which is too few to tell"), row("Unknown", message=why)]
    assert order_verdict(rows) == ("Unknown", "OrderUnknown", why)


@cases("why", "records are read unseen on a native mount", "readers are looked for: 7 epochs were held against")
def test_why_nothing_can_be_known_is_told(why: str) -> None:
    assert order_verdict([row("Unknown", message=why)]) == ("Unknown", "OrderUnknown", why)


def test_nothing_read_is_unknown() -> None:
    assert order_verdict([row("Unknown")])[0] == "Unknown"

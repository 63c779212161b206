"""AdmissionReview in, AdmissionReview out."""

import base64
import json
from typing import Any

import jsonpatch
import pytest

from stoker_api import names
from stoker_operator.core.views.catalog import CatalogEntry
from stoker_operator.errors import MalformedReviewError
from stoker_operator.webhook.review import Result, review
from tests.support.cases import cases
from tests.unit.stoker_operator.profiles import BAD, GOOD
from tests.unit.stoker_tuning.documents.test_random_documents import Writer

CATALOG = {"vision/imagenet": CatalogEntry("vision", "imagenet")}


def request(datasets: str, **pod: Any) -> dict[str, Any]:
    metadata = {"annotations": {names.ANNOTATION_DATASETS: datasets}}
    body = {"kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "main"}]}} | pod
    return {"uid": "u-1", "namespace": "vision", "object": body}


def ask(datasets: str, **pod: Any) -> tuple[dict[str, Any], Result]:
    found = review(json.dumps({"request": request(datasets, **pod)}).encode(), CATALOG)
    return found.answer["response"], found.result


def test_the_answer_bears_the_requests_uid_and_a_json_patch() -> None:
    response, result = ask("imagenet:/data")
    assert (response["uid"], response["allowed"], response["patchType"], result) == (
        "u-1",
        True,
        "JSONPatch",
        Result.INJECTED,
    )


def test_the_namespace_of_the_request_counts_where_the_pod_has_none() -> None:
    response, _ = ask("imagenet:/data")
    patch = json.loads(base64.b64decode(response["patch"]))
    pod = jsonpatch.apply_patch(request("imagenet:/data")["object"], patch)
    assert pod["spec"]["volumes"][0]["csi"]["volumeAttributes"]["datasetNamespace"] == "vision"


def test_a_refusal_carries_the_sentence() -> None:
    response, result = ask("imagnet:/data")
    assert (response["allowed"], result) == (False, Result.REFUSED)
    assert response["status"]["message"].startswith("Dataset vision/imagnet does not exist")


@cases(
    "body",
    b"",
    b"[]",
    b"null",
    b"{}",
    b'{"request": {"uid": "u"}}',
    json.dumps({"request": request("a", kind="Deployment")}).encode(),
)
def test_what_is_no_review_of_a_pod_is_an_error(body: bytes) -> None:
    with pytest.raises(MalformedReviewError):
        review(body, CATALOG)


def ask_for_profile(spec: Any, before: Any = None) -> tuple[dict[str, Any], Result]:
    body = {"kind": "TuningProfile", "metadata": {"name": "fast"}, "spec": spec}
    asked: dict[str, Any] = {"uid": "u-2", "object": body}
    if before is not None:
        asked["oldObject"] = body | {"spec": before}
    found = review(json.dumps({"request": asked}).encode(), {})
    return found.answer["response"], found.result


def test_a_good_profile_is_let_in_as_it_is() -> None:
    assert ask_for_profile(GOOD) == ({"uid": "u-2", "allowed": True}, Result.UNCHANGED)


def test_a_wrong_profile_is_refused_with_path_and_suggestion() -> None:
    response, result = ask_for_profile(BAD)
    assert (response["allowed"], response["status"]["code"], result) == (False, 422, Result.REFUSED)
    assert response["status"]["message"].startswith("spec.rules[0].actions[0].type: ")
    assert "did you mean prefetch?" in response["status"]["message"]


def test_a_wrong_profile_that_is_there_may_change_in_all_but_its_spec() -> None:
    assert ask_for_profile(BAD, before=BAD)[0]["allowed"]
    assert not ask_for_profile(BAD, before=GOOD)[0]["allowed"]


def test_random_profiles_are_let_in_or_refused_with_a_sentence() -> None:
    for seed in range(100):
        response, _ = ask_for_profile(Writer(seed).document()["spec"])
        assert response["allowed"] or response["status"]["message"]

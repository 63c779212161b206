"""AdmissionReview in, AdmissionReview out."""

import base64
import json
from typing import Any

import jsonpatch
import pytest

from stoker_api import names
from stoker_operator.core.catalog import CatalogEntry
from stoker_operator.errors import MalformedReviewError
from stoker_operator.webhook.review import Result, review

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


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"request": {"uid": "u"}}',
        json.dumps({"request": request("a", kind="Deployment")}).encode(),
    ],
)
def test_what_is_no_review_of_a_pod_is_an_error(body: bytes) -> None:
    with pytest.raises(MalformedReviewError):
        review(body, CATALOG)

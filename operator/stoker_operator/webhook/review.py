"""admission.k8s.io/v1 on the wire: one AdmissionReview in, one out."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from stoker_operator.core import injection
from stoker_operator.core.annotations import Refusal
from stoker_operator.core.catalog import Catalog, UnknownDataset
from stoker_operator.errors import MalformedReviewError

_API_VERSION = "admission.k8s.io/v1"
_UNPROCESSABLE = 422


class Result(StrEnum):
    """What came of a request; the label of the counter stoker_webhook_requests_total."""

    INJECTED = "injected"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    MALFORMED = "malformed"
    NOT_READY = "not_ready"
    STRANGER = "stranger"  # not called by the API server


@dataclass(frozen=True, slots=True)
class Review:
    """The answer to an AdmissionReview; ``unknown`` is the Dataset for want of which it was refused."""

    answer: dict[str, Any]
    result: Result
    unknown: str = ""


def review(body: bytes, catalog: Catalog, *, reports: bool = False) -> Review:
    """Answer an AdmissionReview of a Pod. Raises MalformedReviewError when ``body`` is not one.

    ``reports``: pods get a way to report what they do.
    """
    uid, pod, namespace = _parse(body)
    decision = injection.decide_injection(pod, namespace, catalog, reports=reports)
    if isinstance(decision, Refusal):
        status = {"code": _UNPROCESSABLE, "reason": "Invalid", "message": decision.sentence}
        unknown = decision.key if isinstance(decision, UnknownDataset) else ""
        return Review(_answer(uid, {"allowed": False, "status": status}), Result.REFUSED, unknown)
    if not decision:
        return Review(_answer(uid, {"allowed": True}), Result.UNCHANGED)
    patch = base64.b64encode(json.dumps(decision).encode()).decode()
    return Review(_answer(uid, {"allowed": True, "patchType": "JSONPatch", "patch": patch}), Result.INJECTED)


def _answer(uid: str, response: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": {"uid": uid} | response}


def _parse(body: bytes) -> tuple[str, Mapping[str, Any], str]:
    try:
        request = json.loads(body)["request"]
        uid, pod = request["uid"], request["object"]
        kind = pod["kind"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MalformedReviewError("the body is not an AdmissionReview with request.uid and request.object") from error
    if kind != "Pod":
        raise MalformedReviewError(f"the webhook was sent a {kind!r}: its configuration must name pods only")
    return str(uid), pod, str(request.get("namespace") or "")

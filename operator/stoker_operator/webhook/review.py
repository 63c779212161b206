"""admission.k8s.io/v1 on the wire: one AdmissionReview in, one out."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from stoker_api.tuningprofile import TuningProfile
from stoker_operator.core import injection
from stoker_operator.core.annotations import Refusal
from stoker_operator.core.catalog import Catalog, UnknownDataset
from stoker_operator.core.profiles import read_object
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
    """Answer an AdmissionReview of a Pod or a TuningProfile. Raises MalformedReviewError when ``body`` is not one.

    ``reports``: pods get a way to report what they do.
    """
    request = _parse(body)
    uid, pod, namespace = str(request["uid"]), request["object"], str(request.get("namespace") or "")
    if pod["kind"] == TuningProfile.KIND:
        return _review_profile(uid, request)
    decision = injection.decide_injection(pod, namespace, catalog, reports=reports)
    if isinstance(decision, Refusal):
        unknown = decision.key if isinstance(decision, UnknownDataset) else ""
        return _refused(uid, decision.sentence, unknown)
    if not decision:
        return Review(_answer(uid, {"allowed": True}), Result.UNCHANGED)
    patch = base64.b64encode(json.dumps(decision).encode()).decode()
    return Review(_answer(uid, {"allowed": True, "patchType": "JSONPatch", "patch": patch}), Result.INJECTED)


def _review_profile(uid: str, request: Mapping[str, Any]) -> Review:
    """Answer for a TuningProfile. What is in the cluster already, and is wrong, may change in all but its spec."""
    new, old = request["object"], request.get("oldObject")
    unchanged = isinstance(old, Mapping) and old.get("spec") == new.get("spec")
    problem = "" if unchanged else read_object(new).problem
    return _refused(uid, problem) if problem else Review(_answer(uid, {"allowed": True}), Result.UNCHANGED)


def _refused(uid: str, sentence: str, unknown: str = "") -> Review:
    status = {"code": _UNPROCESSABLE, "reason": "Invalid", "message": sentence}
    return Review(_answer(uid, {"allowed": False, "status": status}), Result.REFUSED, unknown)


def _answer(uid: str, response: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": {"uid": uid} | response}


def _parse(body: bytes) -> Mapping[str, Any]:
    """Return the request. Raises MalformedReviewError when it is none of a kind that is known here."""
    try:
        request: Mapping[str, Any] = json.loads(body)["request"]
        kind = (request["uid"], request["object"])[1]["kind"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MalformedReviewError("the body is not an AdmissionReview with request.uid and request.object") from error
    if kind not in ("Pod", TuningProfile.KIND):
        raise MalformedReviewError(
            f"the webhook was sent a {kind!r}: its configurations must name pods and TuningProfiles only"
        )
    return request

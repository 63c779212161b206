"""admission.k8s.io/v1 on the wire: one AdmissionReview in, one out."""

import base64
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from stoker_api.jobs.pod_annotations import Refusal
from stoker_api.meta import shortened
from stoker_operator.core.classes.profiles import read_object
from stoker_operator.core.pods import injection
from stoker_operator.core.pods.pod_manifest import PodManifest, size_problem
from stoker_operator.core.views.catalog import Catalog, UnknownDataset
from stoker_operator.webhook.review_request import ReviewRequest, read_review

_API_VERSION: Final = "admission.k8s.io/v1"
_UNPROCESSABLE: Final = 422
_MOST_MESSAGE: Final = 1024  # characters of a refusal


class Result(StrEnum):
    """The result of a request; the label of the counter stoker_webhook_requests_total."""

    INJECTED = "injected"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    MALFORMED = "malformed"
    NOT_READY = "not_ready"
    STRANGER = "stranger"  # not called by the API server


@dataclass(frozen=True, slots=True)
class Review:
    """The answer to an AdmissionReview; ``unknown`` is the missing Dataset if that caused a refusal."""

    answer: dict[str, Any]
    result: Result
    unknown: str = ""


def review(body: bytes, catalog: Catalog, *, reports: bool = False) -> Review:
    """Answer an AdmissionReview of a Pod or a TuningProfile. Raises MalformedReviewError for any other ``body``.

    ``reports``: pods get a socket for reports.
    """
    return decide(read_review(body), catalog, reports=reports)


def decide(request: ReviewRequest, catalog: Catalog, *, reports: bool = False) -> Review:
    """Answer a decoded review; the parameters are those of ``review``."""
    if request.pod is None:
        return _review_profile(request)
    decision = _injection(request.pod, request.namespace, catalog, reports=reports)
    if isinstance(decision, Refusal):
        unknown = decision.key if isinstance(decision, UnknownDataset) else ""
        return _refused(request.uid, decision.sentence, unknown)
    if not decision:
        return Review(_answer(request.uid, {"allowed": True}), Result.UNCHANGED)
    patch = base64.b64encode(json.dumps(decision).encode()).decode()
    return Review(_answer(request.uid, {"allowed": True, "patchType": "JSONPatch", "patch": patch}), Result.INJECTED)


def _injection(
    pod: PodManifest | Refusal, namespace: str, catalog: Catalog, *, reports: bool
) -> injection.Patch | Refusal:
    if isinstance(pod, Refusal):
        return pod
    return size_problem(pod.size()) or injection.decide_injection(pod.plain(), namespace, catalog, reports=reports)


def _review_profile(request: ReviewRequest) -> Review:
    """Answer for a TuningProfile. An existing profile with errors may change in all but its spec."""
    new, old = request.profile, request.old_profile
    unchanged = new is None or (old is not None and old.get("spec") == new.get("spec"))
    problem = "" if new is None or unchanged else read_object(new).problem
    if problem:
        return _refused(request.uid, problem)
    return Review(_answer(request.uid, {"allowed": True}), Result.UNCHANGED)


def _refused(uid: str, sentence: str, unknown: str = "") -> Review:
    # The API server has not validated names in the pod yet: remove line breaks, which a log line must not have.
    message = "".join(one if one.isprintable() else " " for one in shortened(sentence, _MOST_MESSAGE))
    status = {"code": _UNPROCESSABLE, "reason": "Invalid", "message": message}
    return Review(_answer(uid, {"allowed": False, "status": status}), Result.REFUSED, unknown)


def _answer(uid: str, response: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": {"uid": uid} | response}

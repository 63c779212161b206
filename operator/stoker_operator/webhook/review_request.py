"""An AdmissionReview from the API server, with only the fields decoded that the answer needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw, Struct

from stoker_api.jobs.pod_annotations import Refusal
from stoker_api.meta import shortened
from stoker_api.profiles.tuningprofile import TuningProfile
from stoker_operator.core.pods.pod_manifest import PodManifest, decode_pod
from stoker_operator.errors import MalformedReviewError

MOST_PROFILE: Final = 65_536  # bytes of a TuningProfile that the webhook reads; about 700 rules, 80 ms
_FEW_MOUNTS: Final = 100
_SMALL_PATCH: Final = 16_384  # characters of paths and names in all containers together
_SHOWN: Final = 60  # characters of a body's text in a sentence


class _ObjectKind(Struct):
    kind: str


class _Request(Struct):
    uid: Annotated[str, Meta(max_length=128)]
    object: Raw
    oldObject: Raw = Raw()  # noqa: N815 -- the API's name
    namespace: Annotated[str, Meta(max_length=253)] = ""


class _AdmissionReview(Struct):
    request: _Request


_DECODER: Final = msgspec.json.Decoder(_AdmissionReview)


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """A request about a pod, or about a TuningProfile with its old state.

    ``profile`` is None if it is too large for the webhook: then its status reports errors.
    """

    uid: str
    namespace: str = ""
    pod: PodManifest | Refusal | None = None
    profile: Mapping[str, Any] | None = None
    old_profile: Mapping[str, Any] | None = None

    @property
    def is_quick(self) -> bool:
        """Return True if the answer takes a few milliseconds at most, so that the event loop may compute it."""
        if not isinstance(self.pod, PodManifest):
            return self.profile is None
        size = self.pod.size()
        return size.mounts <= _FEW_MOUNTS and size.containers * self.pod.annotation_size() <= _SMALL_PATCH


def read_review(body: bytes) -> ReviewRequest:
    """Decode a review of a Pod or a TuningProfile. Raises MalformedReviewError for any other ``body``."""
    try:
        return _read(_DECODER.decode(body).request)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReviewError(
            f"the body is not an AdmissionReview of a Pod or a TuningProfile: {shortened(str(error), 2 * _SHOWN)}"
        ) from error


def _read(request: _Request) -> ReviewRequest:
    kind = msgspec.json.decode(request.object, type=_ObjectKind).kind
    if kind == "Pod":
        return ReviewRequest(request.uid, request.namespace, decode_pod(bytes(request.object)))
    if kind == TuningProfile.KIND:
        return ReviewRequest(request.uid, profile=_profile(request.object), old_profile=_profile(request.oldObject))
    raise MalformedReviewError(
        f"the webhook was sent a {shortened(kind, _SHOWN)!r}: its configurations must name pods and TuningProfiles only"
    )


def _profile(raw: Raw) -> dict[str, Any] | None:
    text = bytes(raw)
    return msgspec.json.decode(text, type=dict[str, Any] | None) if 0 < len(text) <= MOST_PROFILE else None

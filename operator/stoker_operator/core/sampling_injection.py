"""What the webhook tells a node of the order in which a pod reads: the annotation, checked, with its rank. Pure."""

from collections.abc import Mapping
from typing import Any

from stoker_api import names
from stoker_api.sampling import parse_sampling_text
from stoker_operator.core.annotations import DatasetRequest, PodRequest, Refusal

_INDEX = "batch.kubernetes.io/job-completion-index"
_MOST_DIGITS = 9


def sampling_attributes(pod: Mapping[str, Any], request: PodRequest) -> dict[str, dict[str, str]] | Refusal:
    """Return the attribute of the volume of the Dataset that the pod samples, by the Dataset's key; {}: none is said.

    Refuses an annotation that is wrong: who writes one waits for what it promises.
    """
    annotations = pod.get("metadata", {}).get("annotations") or {}
    text = annotations.get(names.ANNOTATION_SAMPLING)
    if text is None:
        return {}
    try:
        sampling = parse_sampling_text(text)
    except ValueError as error:
        return Refusal(str(error))
    dataset = _dataset(sampling.dataset, request)
    if dataset is None:
        known = ", ".join(one.key for one in request.datasets)
        return Refusal(
            f"the annotation {names.ANNOTATION_SAMPLING} is about the Dataset {sampling.dataset!r}, which the pod does "
            f"not have: name one of {known}"
        )
    return {dataset.key: {names.CSI_ATTRIBUTE_SAMPLING: sampling.for_pod(_index(annotations)).text()}}


def _dataset(name: str, request: PodRequest) -> DatasetRequest | None:
    if not name:
        return request.datasets[0]
    return next((one for one in request.datasets if name in (one.name, one.key)), None)


def _index(annotations: Mapping[str, Any]) -> int | None:
    """Return the pod's completion index, as the Job controller writes it."""
    text = str(annotations.get(_INDEX, ""))
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None

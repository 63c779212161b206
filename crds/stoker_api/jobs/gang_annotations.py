"""The label and the annotation of a gang: pods that are released together."""

from collections.abc import Mapping

from stoker_api import names
from stoker_api.jobs.pod_annotations import Refusal
from stoker_api.meta import shortened

_EXAMPLE = (
    f"label all pods of a gang alike, {names.LABEL_GANG}: resnet-1, and annotate each with how many there are, "
    f'{names.ANNOTATION_GANG_SIZE}: "4"'
)
_SHOWN = 40  # characters of a user's text
_MOST_DIGITS = 18  # of an int64


def read_gang_size(text: str) -> int:
    """Parse the number of pods in a gang. Return 0 if the annotation has no number."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def gang_problem(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Refusal | None:
    """Refuse a gang without a size, an invalid size, or a size without a gang. Workers of a TrainingJob pass."""
    gang, size = labels.get(names.LABEL_GANG, ""), annotations.get(names.ANNOTATION_GANG_SIZE)
    if names.LABEL_TRAINING_JOB in labels:
        return None
    if size is None:
        return Refusal(f"the pod has the label {names.LABEL_GANG} and not its size: {_EXAMPLE}") if gang else None
    if not read_gang_size(size):
        said = f"the annotation {names.ANNOTATION_GANG_SIZE} is {shortened(size, _SHOWN)!r}"
        return Refusal(f"{said}, and it must be a whole number, 1 or more: {_EXAMPLE}")
    return None if gang else Refusal(f"the pod has the annotation {names.ANNOTATION_GANG_SIZE} and no gang: {_EXAMPLE}")

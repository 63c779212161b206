"""What a pod says of its gang, checked at the door.

A gang of a wrong size is none: each of its pods would go alone, and nobody would know why.
"""

from collections.abc import Mapping

from stoker_api import names
from stoker_api.meta import shortened
from stoker_operator.core.annotations import Refusal
from stoker_operator.core.views import read_gang_size

_EXAMPLE = (
    f"label all pods of a gang alike, {names.LABEL_GANG}: resnet-1, and annotate each with how many there are, "
    f'{names.ANNOTATION_GANG_SIZE}: "4"'
)
_SHOWN = 40  # characters of what somebody wrote


def gang_problem(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Refusal | None:
    """Refuse a gang without a size, a size that is none, and a size without a gang; workers of a TrainingJob pass."""
    gang, size = labels.get(names.LABEL_GANG, ""), annotations.get(names.ANNOTATION_GANG_SIZE)
    if names.LABEL_TRAINING_JOB in labels:
        return None
    if size is None:
        return Refusal(f"the pod has the label {names.LABEL_GANG} and not its size: {_EXAMPLE}") if gang else None
    if not read_gang_size(size):
        said = f"the annotation {names.ANNOTATION_GANG_SIZE} is {shortened(size, _SHOWN)!r}"
        return Refusal(f"{said}, and it must be a whole number, 1 or more: {_EXAMPLE}")
    return None if gang else Refusal(f"the pod has the annotation {names.ANNOTATION_GANG_SIZE} and no gang: {_EXAMPLE}")

"""Pods that Stoker's scheduling gate holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from stoker_api import names
from stoker_api.meta import shortened
from stoker_cli.pods.why import awaited_datasets

Object = Mapping[str, Any]
# A tenant may write 256 KiB of annotations to each of thousands of pods.
_MOST_OF_REASON, _MOST_OF_KEY, _MOST_OF_TIME, _MOST_DATASETS = 500, 317, 40, 20


@dataclass(frozen=True)
class HeldPod:
    """A held pod. ``since``: RFC 3339, empty if unknown. ``job``: its controller, as ``Kind name``."""

    namespace: str
    name: str
    reason: str
    since: str
    datasets: tuple[str, ...]
    job: str

    @property
    def key(self) -> str:
        """The pod's ``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def held_pod(pod: Object) -> HeldPod | None:
    """Return the pod, or None if Stoker does not hold it."""
    if not any(gate.get("name") == names.GATE_WARM for gate in pod["spec"].get("schedulingGates") or ()):
        return None
    meta = pod["metadata"]
    annotations = meta.get("annotations") or {}
    reason = annotations.get(names.ANNOTATION_WAITING) or "The operator has not given a reason yet."
    since = annotations.get(names.ANNOTATION_HELD_SINCE) or meta.get("creationTimestamp") or ""
    datasets = tuple(shortened("/".join(key), _MOST_OF_KEY) for key in islice(awaited_datasets(pod), _MOST_DATASETS))
    reason, since = shortened(reason, _MOST_OF_REASON), since[:_MOST_OF_TIME]
    return HeldPod(meta["namespace"], meta["name"], reason, since, datasets, shortened(_controller(meta), _MOST_OF_KEY))


def _controller(meta: Object) -> str:
    if job := (meta.get("labels") or {}).get(names.LABEL_TRAINING_JOB):
        return f"TrainingJob {job}"
    owners = (ref for ref in meta.get("ownerReferences") or () if ref.get("controller"))
    return next((f"{ref.get('kind')} {ref.get('name')}" for ref in owners), "")

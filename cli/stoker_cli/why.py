"""Why a pod waits, why it landed where it did, and how it reads: from the pod, its events and its mounts; pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.meta import format_bytes, format_duration
from stoker_api.node_storage import NodeMount
from stoker_api.release import ReleaseNode, ReleaseRecord
from stoker_cli import order_suggestion, reading
from stoker_cli.awaited import progress_sentences

Object = Mapping[str, Any]


@dataclass(frozen=True)
class PodExplanation:
    """What happened to a pod and why: ``state`` is one word for scripts, ``lines`` are sentences for people."""

    pod: str
    state: str  # NotManaged, Held, Released, Running, Finished
    node: str = ""
    lines: Sequence[str] = ()
    release: ReleaseRecord | None = None
    held_seconds: float | None = None
    events: Sequence[Mapping[str, str]] = field(default_factory=tuple)

    def wire(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "pod": self.pod,
            "state": self.state,
            "node": self.node,
            "explanation": list(self.lines),
            "heldSeconds": self.held_seconds,
            "release": self.release.wire() if self.release else None,
            "events": [dict(event) for event in self.events],
        }


def explain(
    pod: Object, events: Sequence[Object], mounts: Sequence[NodeMount] = (), awaited: Sequence[Dataset] = ()
) -> PodExplanation:
    """Work out what happened and why, of one pod (raw object), the events about it and the mounts of its node.

    ``awaited``: the Datasets that it waits for, while it is held.
    """
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    name = f"{metadata['namespace']}/{metadata['name']}"
    story = tuple(_event(event) for event in sorted(events, key=_event_time))
    reads = (*reading.sentences(pod, mounts), *order_suggestion.sentences(pod))
    if names.LABEL_MANAGED not in (metadata.get("labels") or {}):
        lines = (*_not_managed(annotations, brought=bool(reads)), *reads)
        return PodExplanation(name, "NotManaged", _node(pod), lines, events=story)
    if _held(pod):
        waiting = annotations.get(names.ANNOTATION_WAITING) or "It is held; the operator has not said why yet."
        return PodExplanation(
            name, "Held", lines=(f"It is held: {waiting}", *progress_sentences(awaited)), events=story
        )
    release = _release(annotations)
    lines = (*_released(release), *_landed(pod, release), *reads)
    return PodExplanation(name, _state(pod), _node(pod), lines, release, _held_seconds(release), story)


def _not_managed(annotations: Mapping[str, str], *, brought: bool) -> tuple[str, ...]:
    if names.ANNOTATION_DATASETS in annotations:
        return (
            "It has the annotation, but the webhook never saw it: it was made before Stoker was installed, "
            "or the annotation was added later. Delete the pod and let its owner make it again.",
        )
    if brought:
        return (
            f"It was never held: it brought a volume of its own and has no annotation {names.ANNOTATION_DATASETS}.",
        )
    return (f"Stoker has nothing to do with it: it has no annotation {names.ANNOTATION_DATASETS}.",)


def _held(pod: Object) -> bool:
    return any(gate.get("name") == names.GATE_WARM for gate in pod["spec"].get("schedulingGates") or ())


def _node(pod: Object) -> str:
    return str(pod["spec"].get("nodeName") or "")


def _state(pod: Object) -> str:
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        return "Finished"
    return "Running" if phase == "Running" else "Released"


def _release(annotations: Mapping[str, str]) -> ReleaseRecord | None:
    text = annotations.get(names.ANNOTATION_RELEASED)
    try:
        return ReleaseRecord.model_validate_json(text) if text else None
    except ValidationError:
        return None  # written by another version: the events still tell


def _released(release: ReleaseRecord | None) -> tuple[str, ...]:
    if release is None:
        return ("It was never held.",)
    held = format_duration(_held_seconds(release) or 0)
    return (f"It was held for {held} and released at {release.released_at}: {release.message}",)


def _held_seconds(release: ReleaseRecord | None) -> float | None:
    if release is None:
        return None
    start, end = (datetime.fromisoformat(text) for text in (release.held_since, release.released_at))
    return (end - start).total_seconds()


def _warmth(node: ReleaseNode) -> str:
    share = 100 * node.warm_bytes / node.total_bytes if node.total_bytes else 100
    return f"{share:.0f} % warm ({format_bytes(node.warm_bytes)} of {format_bytes(node.total_bytes)})"


def _landed(pod: Object, release: ReleaseRecord | None) -> tuple[str, ...]:
    node = _node(pod)
    if not node:
        return (f"It is not scheduled yet: {_scheduler_says(pod)}",)
    known = next((entry for entry in release.nodes if entry.name == node), None) if release else None
    if known is None:
        return (f"It landed on {node}.",)
    return (f"It landed on {node}, which was {_warmth(known)} at release.",)


def _scheduler_says(pod: Object) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("message"):
            return str(condition["message"])
    return "the scheduler has said nothing yet."


def _event_time(event: Object) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((str(time) for time in times if time), "")


def _event(event: Object) -> dict[str, str]:
    message = event.get("message") or event.get("note") or ""
    return {"time": _event_time(event), "reason": str(event.get("reason", "")), "message": str(message)}


def dumps(explanation: PodExplanation) -> str:
    """Write indented JSON."""
    return json.dumps(explanation.wire(), indent=2)

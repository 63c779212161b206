"""Why a pod waits or runs on its node, and how it reads its data. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import Phase
from stoker_api.datasets.release import ReleaseNode, ReleaseRecord
from stoker_api.meta import format_bytes, format_duration
from stoker_api.node_caches.node_storage import NodeMount
from stoker_cli.pods import order_suggestion, reading
from stoker_cli.rows import message

Object = Mapping[str, Any]

_PREFIX = f"{names.GROUP}/"
_KNOWN = frozenset((*names.USER_ANNOTATIONS, *names.OWN_ANNOTATIONS))


def annotation_sentences(pod: Object, owners: Sequence[Object]) -> Iterator[str]:
    """Return a sentence for each annotation of a pod or its owners that has no effect."""
    yield from (f"It has {_unknown(key)}" for key in _misspelt(pod))
    own = _annotations(pod)
    for owner in owners:
        where = f"{owner.get('kind')} {owner['metadata']['namespace']}/{owner['metadata']['name']}"
        yield from (f"{where} has {_unknown(key)}" for key in _misspelt(owner))
        for key in names.USER_ANNOTATIONS:
            if key in _annotations(owner) and key not in own:
                yield (
                    f"{where} has the annotation {key} in its own metadata, where it has no effect. Move it to the "
                    "metadata.annotations of the pod template."
                )


def _misspelt(item: Object) -> list[str]:
    return sorted(key for key in _annotations(item) if key.startswith(_PREFIX) and key not in _KNOWN)


def _annotations(item: Object) -> Mapping[str, str]:
    return item["metadata"].get("annotations") or {}


def _unknown(key: str) -> str:
    short = {known.removeprefix(_PREFIX): known for known in names.USER_ANNOTATIONS}
    near = get_close_matches(key.removeprefix(_PREFIX), short, n=1)
    meant = f"Did you mean {short[near[0]]}?" if near else f"Use one of {', '.join(names.USER_ANNOTATIONS)}."
    return f"the unknown annotation {key}. {meant}"


def awaited_datasets(pod: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return namespace and name of each Dataset of a held pod, or an empty list if the pod is not held."""
    if not any(gate.get("name") == names.GATE_WARM for gate in pod["spec"].get("schedulingGates") or ()):
        return []
    text = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_DATASETS, "")
    keys = (piece.partition(":")[0].partition("@")[0].strip() for piece in text.split(","))
    pairs = (key.rpartition("/") for key in keys if key)
    return [(home or pod["metadata"]["namespace"], name) for home, _, name in pairs]


def progress_sentences(datasets: Iterable[Dataset]) -> tuple[str, ...]:
    """Describe the progress of each Dataset."""
    return tuple(_progress(dataset) for dataset in datasets)


def _progress(dataset: Dataset) -> str:
    status = dataset.status
    parts = [status.shown_phase or "no status yet"]
    parts += [f"{status.cached_percent} cached on its nodes"] if status.cached_percent else []
    parts += [f"complete on {status.warm_nodes} nodes"] if status.warm_nodes else []
    parts += [f"{status.speed}"] if status.speed else []
    parts += [f"ETA {status.eta}"] if status.eta else []
    problem = f" {message(dataset)}" if status.phase is Phase.FAILED else ""
    return f"Dataset {dataset.key}: {', '.join(parts)}.{problem}"


@dataclass(frozen=True)
class PodExplanation:
    """The explanation of a pod: ``state`` is a word for scripts, ``lines`` are sentences for people."""

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
    pod: Object,
    events: Sequence[Object],
    mounts: Sequence[NodeMount] = (),
    awaited: Sequence[Dataset] = (),
    owners: Sequence[Object] = (),
    failing: Sequence[str] = (),
) -> PodExplanation:
    """Explain a pod from its raw object, its events and the mounts of its node.

    ``awaited``: Datasets that a held pod waits for. ``owners``: its controllers. ``failing``: sentences about failing
    reads.
    """
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    name = f"{metadata['namespace']}/{metadata['name']}"
    story = tuple(_event(event) for event in sorted(events, key=_event_time))
    reads = (*failing, *reading.sentences(pod, mounts), *order_suggestion.sentences(pod))
    misplaced = tuple(annotation_sentences(pod, owners))
    if names.LABEL_MANAGED not in (metadata.get("labels") or {}):
        lines = (*_not_managed(annotations, brought=bool(reads)), *misplaced, *reads)
        return PodExplanation(name, "NotManaged", _node(pod), lines, events=story)
    if _held(pod):
        waiting = annotations.get(names.ANNOTATION_WAITING) or "The operator has not given a reason yet."
        release_hint = f"To release it now: stoker -n {metadata['namespace']} release {metadata['name']}"
        lines = (f"It is held: {waiting}", *progress_sentences(awaited), *misplaced, release_hint)
        return PodExplanation(name, "Held", lines=lines, events=story)
    release = _release(annotations)
    lines = (*_released(release), *_placement(pod, release), *misplaced, *reads)
    return PodExplanation(name, _state(pod), _node(pod), lines, release, _held_seconds(release), story)


def _not_managed(annotations: Mapping[str, str], *, brought: bool) -> tuple[str, ...]:
    if names.ANNOTATION_DATASETS in annotations:
        return (
            "The webhook did not process it: the pod is older than Stoker's installation, or the annotation was added "
            "later. Delete the pod so that its owner creates it again.",
        )
    if brought:
        return (f"It was never held: it uses a Dataset volume without the annotation {names.ANNOTATION_DATASETS}.",)
    return (f"Stoker does not manage it: it has no annotation {names.ANNOTATION_DATASETS}.",)


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
        return None  # written by another version


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


def _placement(pod: Object, release: ReleaseRecord | None) -> tuple[str, ...]:
    node = _node(pod)
    if not node:
        return (f"It is not scheduled yet: {_scheduler_says(pod)}",)
    row = next((entry for entry in release.nodes if entry.name == node), None) if release else None
    warmth = "" if row is None else f", which was {_warmth(row)} at release"
    if _state(pod) != "Finished":
        return (f"It runs on {node}{warmth}.",)
    return (f"It ran on {node}{warmth}.", *reading.finished_sentences(pod))


def _scheduler_says(pod: Object) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("message"):
            return str(condition["message"])
    return "no message from the scheduler yet."


def _event_time(event: Object) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((str(time) for time in times if time), "")


def _event(event: Object) -> dict[str, str]:
    message = event.get("message") or event.get("note") or ""
    return {"time": _event_time(event), "reason": str(event.get("reason", "")), "message": str(message)}


def by_urgency(pods: Sequence[Object]) -> list[Object]:
    """Sort the pods of a job: held, running, finished."""
    return sorted(pods, key=lambda pod: (not _held(pod), _state(pod) == "Finished", str(pod["metadata"]["name"])))


def dumps(explanation: PodExplanation | Sequence[PodExplanation]) -> str:
    """Return indented JSON: an object for a pod, a list for the pods of a job."""
    if isinstance(explanation, PodExplanation):
        return json.dumps(explanation.wire(), indent=2)
    return json.dumps([item.wire() for item in explanation], indent=2)

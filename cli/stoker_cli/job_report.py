"""What `stoker report` shows: a job's goodput in rows, each with how many of its pods it was measured of; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from stoker_api import names
from stoker_api.goodput import NOT_MEASURED, EndedPod, Goodput, bytes_words, goodput, stall_words, warm_words
from stoker_api.meta import format_duration
from stoker_api.release import ReleaseRecord
from stoker_api.trainingjob import JobPhase, TrainingJob

Object = Mapping[str, Any]

COLUMNS = ("FIGURE", "VALUE", "PODS")
EXPLANATION = """\
Each figure is what was really measured; what was not is "not measured", and never 0. PODS says of how many pods.

held at the gate     from the moment when Stoker's scheduling gate was the last one on a pod until its release; of the
                     pods the longest. A held pod has no node, so it takes no GPU. What a job waited for its data in
                     Kueue's queue is none of it: it had no pods then, and its quota went to others.
warm at start        of the versions that a pod mounted, the bytes that lay on its node's disk at that moment; summed up
                     over pods, so that two pods of one node count the same bytes each.
from the origin      bytes that the source sent to the node for these Datasets while the pod had them mounted, what was
                     thrown away too; pods of a node that have the same one mounted share them equally.
from neighbours      the same, of files that other nodes gave.
stalled              time waiting for data, of the time in which the node knew whether the pod waits. Who tells it:
                     docs/TRAINING-AWARENESS.md, "Stall".
GPU-hours            the GPUs that a pod's spec asks for, times how long it had its Datasets mounted.
saved                against a cold start, which copies the same data to the node first, with the GPUs waiting:

                       seconds of a pod = sum over its Datasets of  warm bytes x share of files that it opened
                                                                    ----------------------------------------
                                                                     best rate from the source on this node

                       GPU-hours        = sum over pods of  seconds x GPUs / 3600

                     The share is 1 at most, and 1 where nobody saw its opens. The best rate is
                     NodeCache.status.datasets[].bestSourceBytesPerSecond: known once half a minute of a warm-up was
                     seen that nothing limits, neither warm.bandwidthLimit nor a cap of its origin, and to which no
                     other node gave. A program that reads while it fetches would lose less than that.
"""


@dataclass(frozen=True)
class JobReport:
    """A job, or a pod, and what it made of its time; None: nothing is known of that. ``note``: what to know of it."""

    kind: str
    namespace: str
    name: str
    phase: str
    goodput: Goodput | None
    note: str = ""

    def wire(self) -> dict[str, Any]:
        """Return the JSON form, in which null is not measured."""
        known = self.goodput or Goodput()
        figures = known.model_dump(by_alias=True, mode="json", exclude={"counted", "awaited", "message"})
        shares = {"warmShare": _rounded(known.warm_share), "stallShare": _rounded(known.stall_share)}
        head = {"kind": self.kind, "namespace": self.namespace, "name": self.name, "phase": self.phase}
        return head | {"note": self.note, "message": known.message, "goodput": figures | shares}

    def title(self) -> str:
        """Return the sentence above the table."""
        said = self.goodput.message if self.goodput is not None else "nothing was measured of it"
        return f"{self.kind} {self.namespace}/{self.name}: {self.phase or 'Pending'}. {said}."


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def rows(known: Goodput) -> list[tuple[str, str, str]]:
    """Return the rows of the table."""
    pods, measured = known.pods + known.missed, known.measured
    warm = "" if known.warm_share is None else f" ({_of(known.warm_bytes, known.data_bytes)})"
    stalled = "" if known.stall_share is None else f" ({_stalled(known)})"
    return [
        ("held at the gate", _duration(known.held_seconds), ""),
        ("warm at start", warm_words(known) + warm, _count(measured.warm, pods)),
        ("from the origin", bytes_words(known.origin_bytes), _count(measured.origin, pods)),
        ("from neighbours", bytes_words(known.peer_bytes), _count(measured.origin, pods)),
        ("stalled", stall_words(known) + stalled, _count(measured.stall, pods)),
        ("GPU-hours", _hours(known.gpu_hours), _count(measured.gpu_hours, pods)),
        ("saved", _saved(known), _count(max(measured.saved, measured.saved_gpu_hours), pods)),
    ]


def _count(measured: int, pods: int) -> str:
    return f"{measured} of {pods}"


def _of(part: int | None, whole: int | None) -> str:
    return f"{bytes_words(part)} of {bytes_words(whole)}"


def _duration(seconds: float | None) -> str:
    return NOT_MEASURED if seconds is None else format_duration(seconds)


def _stalled(known: Goodput) -> str:
    source = f", by {known.stall_source}" if known.stall_source else ""
    return f"{_duration(known.stalled_seconds)} of {_duration(known.watched_seconds)}{source}"


def _hours(hours: float | None) -> str:
    return NOT_MEASURED if hours is None else f"{hours:.2f}"


def _saved(known: Goodput) -> str:
    if known.saved_gpu_hours is not None:
        return f"about {known.saved_gpu_hours:.2f} GPU-hours ({_duration(known.saved_seconds)} of its pods)"
    if known.saved_seconds is not None:
        return f"about {_duration(known.saved_seconds)} of its pods; GPU-hours {NOT_MEASURED}: no spec asks for GPUs"
    return NOT_MEASURED


def of_training_job(job: TrainingJob) -> JobReport:
    """Return what the operator has gathered of a TrainingJob."""
    known, phase = job.status.goodput, job.status.phase
    if known is None:
        note = "Its pods are told of when they end." if not _is_over(phase) else "No node has told of its pods."
    elif not known.complete:
        note = "So far: its pods are told of when they end."
    elif known.missed:
        note = f"No node has told of {known.missed} of its pods: their sidecars were older, or the nodes went away."
    else:
        note = ""
    return JobReport("TrainingJob", job.metadata.namespace, job.metadata.name, str(phase or ""), known, note)


def _is_over(phase: JobPhase | None) -> bool:
    return phase in (JobPhase.SUCCEEDED, JobPhase.FAILED)


def of_pods(subject: tuple[str, str, str], phase: str, pods: Sequence[Object], ended: Sequence[EndedPod]) -> JobReport:
    """Return what is known of pods that no TrainingJob made: their own records, and what nodes still tell of them.

    ``subject``: kind, namespace and name.
    """
    uids = {pod["metadata"]["uid"] for pod in pods}
    mine = [row for row in ended if row.uid in uids]
    known = goodput(None, mine, [held for pod in pods if (held := _held_seconds(pod)) is not None])
    over = [pod for pod in pods if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")]
    missed = len([pod for pod in over if not known.has(pod["metadata"]["uid"])])
    known = goodput(known.model_copy(update={"missed": missed, "complete": bool(pods) and len(over) == len(pods)}), ())
    note = "Nodes tell of a pod for an hour after its end: write it down, or make it a TrainingJob, which keeps it."
    return JobReport(*subject, phase, known if pods else None, note)


def phase_of(pods: Sequence[Object]) -> str:
    """Return what pods of a job of any kind come to: they run as long as one does."""
    phases = {(pod.get("status") or {}).get("phase") or "Pending" for pod in pods}
    if phases <= {"Succeeded", "Failed"}:
        return "Failed" if "Failed" in phases else "Succeeded"
    return "Running" if phases != {"Pending"} else "Pending"


def _held_seconds(pod: Object) -> float | None:
    """Return for how long a pod was held; 0 for one that came to its node without; None: it is held, or not known."""
    text = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_RELEASED)
    if not text:
        return 0.0 if pod["spec"].get("nodeName") else None
    try:
        return ReleaseRecord.model_validate_json(text).held_seconds
    except ValidationError:
        return None

"""Rows of `stoker report`: the goodput of a job, each figure with the number of measured pods. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from stoker_api import names
from stoker_api.datasets.release import ReleaseRecord
from stoker_api.goodput import (
    NOT_MEASURED,
    EndedPod,
    Goodput,
    because,
    bytes_words,
    goodput,
    stall_words,
    warm_words,
)
from stoker_api.jobs.trainingjob import JobPhase, TrainingJob
from stoker_api.meta import format_duration

Object = Mapping[str, Any]

COLUMNS = ("FIGURE", "VALUE", "PODS")
EXPLANATION = """\
Every figure is a measurement. Missing ones are "not measured", never 0. PODS is the number of measured pods.

held at the gate     Time from when Stoker's scheduling gate was the last one on a pod until its release. The maximum
                     over all pods. A held pod has no node and uses no GPU. Time in a queue of Kueue is not included,
                     because the job has no pods and no quota then.
warm at start        Bytes on the disk of the node when a pod mounted its Datasets, of all their bytes. The sum over all
                     pods: two pods on one node both count the same bytes.
from the origin      Bytes from the source to the node for these Datasets while the pod had them mounted, including
                     discarded ones. Pods of a node with the same Dataset share them equally.
from peers           The same for bytes from other nodes.
stalled              Time waiting for data, of the measured time. Pods that report wait_seconds count their own time.
                     For other sources see "Stall" in docs/concepts/training-awareness.md.
GPU-hours            GPUs in the spec of a pod, times how long it had its Datasets mounted.
saved                Compared with a cold start, which first copies the same data to the node while the GPUs wait:

                       seconds of a pod = sum over its Datasets of  warm bytes x share of opened files
                                                                    --------------------------------------
                                                                    best rate from the source on this node

                       GPU-hours        = sum over pods of  seconds x GPUs / 3600

                     The share is at most 1, and 1 if opens are not observed. The best rate is
                     NodeCache.status.datasets[].bestSourceBytesPerSecond. It needs 5 s of a warm-up without
                     warm.bandwidthLimit, without a cap of its origin, and without data from peers, so the figure
                     is rough. A program that reads during the copy would lose less time.
"""


@dataclass(frozen=True)
class JobReport:
    """The goodput of a job or pod, None if unknown. ``note``: a remark for the user."""

    kind: str
    namespace: str
    name: str
    phase: str
    goodput: Goodput | None
    note: str = ""
    unread: bool = False  # the user may not read the figures

    def wire(self) -> dict[str, Any]:
        """Return the JSON form. null means not measured."""
        figures = self.goodput or Goodput()
        fields = figures.model_dump(by_alias=True, mode="json", exclude={"counted", "awaited", "message"})
        shares = {"warmShare": _rounded(figures.warm_share), "stallShare": _rounded(figures.stall_share)}
        head = {"kind": self.kind, "namespace": self.namespace, "name": self.name, "phase": self.phase}
        return head | {"note": self.note, "message": figures.message, "goodput": fields | shares}

    def title(self) -> str:
        """Return the sentence above the table."""
        message = self.goodput.message if self.goodput is not None else "no figures yet"
        message = "you may not read the figures of nodes" if self.unread else message
        head = f"{self.kind} {self.namespace}/{self.name}: {self.phase or 'Pending'}."
        return f"{head} {message}." if message else head


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def rows(figures: Goodput) -> list[tuple[str, str, str]]:
    """Return the rows of the table."""
    pods, measured = figures.pods + figures.missed, figures.measured
    warm = "" if figures.warm_share is None else f" ({_of(figures.warm_bytes, figures.data_bytes)})"
    stalled = because(figures.stall_missing) if figures.stall_share is None else f" ({_stalled(figures)})"
    return [
        ("held at the gate", _duration(figures.held_seconds), ""),
        ("warm at start", warm_words(figures) + warm, _count(measured.warm, pods)),
        ("from the origin", bytes_words(figures.origin_bytes), _count(measured.origin, pods)),
        ("from peers", bytes_words(figures.peer_bytes), _count(measured.origin, pods)),
        ("stalled", stall_words(figures) + stalled, _count(measured.stall, pods)),
        ("GPU-hours", _hours(figures), _count(measured.gpu_hours, pods)),
        ("saved", _saved(figures), _count(max(measured.saved, measured.saved_gpu_hours), pods)),
    ]


def readable(shown: list[tuple[str, str, str]], *, unread: bool) -> list[tuple[str, str, str]]:
    """Return the rows. ``unread``: show "not readable" in place of "not measured"."""
    if not unread:
        return shown
    return [(name, value.replace(NOT_MEASURED, "not readable"), "-" if count else "") for name, value, count in shown]


def _count(measured: int, pods: int) -> str:
    return f"{measured} of {pods}"


def _of(part: int | None, whole: int | None) -> str:
    return f"{bytes_words(part)} of {bytes_words(whole)}"


def _duration(seconds: float | None) -> str:
    return NOT_MEASURED if seconds is None else format_duration(seconds)


def _stalled(figures: Goodput) -> str:
    source = f", by {figures.stall_source}" if figures.stall_source else ""
    return f"{_duration(figures.stalled_seconds)} of {_duration(figures.watched_seconds)}{source}"


def _hours(figures: Goodput) -> str:
    """Format the GPU-hours."""
    if figures.gpu_hours is not None:
        return f"{figures.gpu_hours:.2f}"
    return "none: no pod requests GPUs" if figures.pods else NOT_MEASURED


def _saved(figures: Goodput) -> str:
    if figures.saved_gpu_hours is not None:
        return f"about {figures.saved_gpu_hours:.2f} GPU-hours ({_duration(figures.saved_seconds)} of pod time)"
    if figures.saved_seconds is not None:
        return f"about {_duration(figures.saved_seconds)} of pod time; GPU-hours {NOT_MEASURED}: no pod requests GPUs"
    return NOT_MEASURED + because(figures.saved_missing)


def of_training_job(job: TrainingJob) -> JobReport:
    """Return the report of a TrainingJob from its status."""
    figures, phase = job.status.goodput, job.status.phase
    if figures is None:
        note = "Figures of a pod arrive when it ends." if not _is_over(phase) else "No node reported its pods."
    elif not figures.complete:
        note = "So far. Figures of a pod arrive when it ends."
    elif figures.missed:
        note = f"No node reported {figures.missed} of its pods: the sidecars were too old, or the nodes are gone."
    else:
        note = ""
    return JobReport("TrainingJob", job.metadata.namespace, job.metadata.name, str(phase or ""), figures, note)


def _is_over(phase: JobPhase | None) -> bool:
    return phase in (JobPhase.SUCCEEDED, JobPhase.FAILED)


def of_pods(subject: tuple[str, str, str], phase: str, pods: Sequence[Object], ended: Sequence[EndedPod]) -> JobReport:
    """Return the report of pods without a TrainingJob, from their annotations and the NodeCaches.

    ``subject``: kind, namespace and name.
    """
    uids = {pod["metadata"]["uid"] for pod in pods}
    rows_of_pods = [row for row in ended if row.uid in uids]
    figures = goodput(
        None, rows_of_pods, [held_seconds for pod in pods if (held_seconds := _held_seconds(pod)) is not None]
    )
    over = [pod for pod in pods if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")]
    missed = len([pod for pod in over if not figures.has(pod["metadata"]["uid"])])
    figures = goodput(
        figures.model_copy(update={"missed": missed, "complete": bool(pods) and len(over) == len(pods)}), ()
    )
    note = "Nodes keep the figures of a pod for an hour after its end. A TrainingJob keeps them in its status."
    return JobReport(*subject, phase, figures if pods else None, note)


def phase_of(pods: Sequence[Object]) -> str:
    """Return the phase of a job from its pods. It runs as long as one pod runs."""
    phases = {(pod.get("status") or {}).get("phase") or "Pending" for pod in pods}
    if phases <= {"Succeeded", "Failed"}:
        return "Failed" if "Failed" in phases else "Succeeded"
    return "Running" if phases != {"Pending"} else "Pending"


def _held_seconds(pod: Object) -> float | None:
    """Return how long a pod was held: 0 if it never was, None if it still is or if that is unknown."""
    text = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_RELEASED)
    if not text:
        return 0.0 if pod["spec"].get("nodeName") else None
    try:
        return ReleaseRecord.model_validate_json(text).held_seconds
    except ValidationError:
        return None

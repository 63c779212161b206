"""A job's goodput: sums of what nodes measured of each pod, with each pod counted once. Pure."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from stoker_api.meta import Model, format_bytes, format_duration

_INT64 = {"format": "int64"}
_ATOMIC = {"x-kubernetes-list-type": "atomic"}

MOST_ENDED = 32  # pods of one NodeCache
MOST_COUNTED = 2000  # pods of one job
MOST_AWAITED = 100
UID_CHARACTERS = 8
MOST_REASON = 160  # characters of the reason for a missing figure
NOT_MEASURED = "not measured"

_Bytes = Annotated[int | None, Field(json_schema_extra=_INT64, ge=0)]
_Seconds = Annotated[float | None, Field(ge=0, allow_inf_nan=False)]


_Word = Annotated[str, Field(max_length=40)]
_Reason = Annotated[str, Field(max_length=MOST_REASON)]


class LastReport(Model):
    """The last values that a pod reported about its training. An absent value was not reported."""

    phase: _Word = ""
    epoch: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    epochs: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    step: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    loss: _Word = ""
    mean_loss: _Word = ""
    learning_rate: Annotated[float | None, Field(allow_inf_nan=False)] = None
    checkpoint: Annotated[str, Field(max_length=256)] = ""


class EndedPod(Model):
    """A node's measurements of a pod, from its first mount of a Dataset to its last unmount.

    An absent figure was not measured, which is different from 0. ``savedSeconds`` is the time of one of its GPUs.
    """

    pod: Annotated[str, Field(description="namespace/name.", max_length=320)]
    uid: Annotated[str, Field(max_length=64)]
    job: Annotated[str, Field(description="The object that created the pod, from the pod's spec.", max_length=253)] = ""
    gpus: Annotated[int | None, Field(description="GPUs that its spec requests. Absent: none, or unknown.", ge=1)] = (
        None
    )
    mounted_at: Annotated[str, Field(json_schema_extra={"format": "date-time"}, max_length=40)] = ""
    ended_at: Annotated[str, Field(json_schema_extra={"format": "date-time"}, max_length=40)] = ""
    mounted_seconds: Annotated[_Seconds, Field(description="Time from its first mount to its last unmount.")] = None
    data_bytes: Annotated[_Bytes, Field(description="Size of the versions that it mounted.")] = None
    warm_bytes: Annotated[
        _Bytes, Field(description="Bytes of these that were on the node's disk when it mounted them.")
    ] = None
    origin_bytes: Annotated[
        _Bytes,
        Field(
            description="Bytes from the source during that time. Pods that mount the same version share them equally."
        ),
    ] = None
    peer_bytes: Annotated[_Bytes, Field(description="Bytes from other nodes during that time.")] = None
    watched_seconds: Annotated[_Seconds, Field(description="Time in which its stall was measured.")] = None
    stalled_seconds: Annotated[_Seconds, Field(description="Part of watchedSeconds in which it waited for data.")] = (
        None
    )
    stall_source: Annotated[
        str, Field(description="What measured most of the stall, as in workloads.", max_length=40)
    ] = ""
    stall_missing: Annotated[_Reason | None, Field(description="Why its stall was not measured.")] = None
    saved_seconds: Annotated[
        _Seconds, Field(description="Time that fetching the warm bytes it read from the source would have taken.")
    ] = None
    saved_missing: Annotated[_Reason | None, Field(description="Why savedSeconds was not measured.")] = None
    last: Annotated[LastReport | None, Field(description="Its last report. Absent: it reported nothing.")] = None


class AwaitedPod(Model):
    """A pod that has ended, and whose node has not reported it yet."""

    uid: Annotated[str, Field(max_length=64)]
    node: Annotated[str, Field(max_length=253)]


class MeasuredPods(Model):
    """The number of pods for which each figure was measured."""

    warm: int = 0
    origin: int = 0
    stall: int = 0
    gpu_hours: int = 0
    saved: int = 0
    saved_gpu_hours: int = 0


class Goodput(Model):
    """How a job used its time, summed over its pods. An absent figure was not measured for any pod."""

    message: Annotated[str, Field(description="The figures in a sentence.", max_length=512)] = ""
    complete: Annotated[bool, Field(description="The job has ended, and all node reports are included.")] = False
    pods: Annotated[int, Field(description="Pods that nodes have reported.", ge=0)] = 0
    missed: Annotated[int, Field(description="Pods that ended and that no node has reported.", ge=0)] = 0
    measured: Annotated[MeasuredPods, Field(description="Number of pods for which each figure was measured.")] = (
        MeasuredPods()
    )
    held_seconds: Annotated[
        _Seconds, Field(description="The longest time that Stoker's scheduling gate held a pod.")
    ] = None
    data_bytes: Annotated[
        _Bytes, Field(description="Size of the data that its pods mounted, for pods with warmBytes.")
    ] = None
    warm_bytes: Annotated[
        _Bytes, Field(description="Part of dataBytes that was on the nodes' disks at their start.")
    ] = None
    origin_bytes: Annotated[_Bytes, Field(description="Bytes from the source while they ran.")] = None
    peer_bytes: Annotated[_Bytes, Field(description="Bytes from other nodes while they ran.")] = None
    watched_seconds: Annotated[_Seconds, Field(description="Time of its pods in which their stall was measured.")] = (
        None
    )
    stalled_seconds: Annotated[_Seconds, Field(description="Part of watchedSeconds in which they waited for data.")] = (
        None
    )
    stall_source: Annotated[str, Field(max_length=40)] = ""
    stall_missing: Annotated[_Reason, Field(description="Why no stall was measured, for the first such pod.")] = ""
    gpu_hours: Annotated[_Seconds, Field(description="GPUs that its pods requested, times hours.")] = None
    saved_seconds: Annotated[_Seconds, Field(description="Time that its pods saved by finding bytes on the disk.")] = (
        None
    )
    saved_gpu_hours: Annotated[_Seconds, Field(description="savedSeconds times the GPUs of each pod, in hours.")] = None
    saved_missing: Annotated[_Reason, Field(description="Why savings were not measured, for the first such pod.")] = ""
    counted: Annotated[
        tuple[Annotated[str, Field(max_length=UID_CHARACTERS)], ...],
        Field(
            description="Beginnings of the UIDs of the counted pods.",
            max_length=MOST_COUNTED,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    awaited: Annotated[
        tuple[AwaitedPod, ...],
        Field(description="Pods whose node has not reported yet.", max_length=MOST_AWAITED, json_schema_extra=_ATOMIC),
    ] = ()

    @property
    def warm_share(self) -> float | None:
        """Share of the data that was warm at the start, 0 to 1; None: not measured."""
        if self.warm_bytes is None or self.data_bytes is None:
            return None
        return min(1.0, self.warm_bytes / self.data_bytes) if self.data_bytes else 1.0

    @property
    def stall_share(self) -> float | None:
        """Share of the time in which the pods waited for data, 0 to 1; None: not measured."""
        if self.stalled_seconds is None or not self.watched_seconds:
            return None
        return min(1.0, self.stalled_seconds / self.watched_seconds)

    def has(self, uid: str) -> bool:
        """Return True if the pod with this UID is counted."""
        return short_uid(uid) in self.counted


def short_uid(uid: str) -> str:
    """Return the part of a pod's UID that ``counted`` stores."""
    return uid[:UID_CHARACTERS]


def goodput(before: Goodput | None, ended: Iterable[EndedPod], held_seconds: Iterable[float] = ()) -> Goodput:
    """Return the sum of ``before`` and the pods of ``ended`` that it does not count yet.

    ``held_seconds`` are the hold times of released pods. The longest one counts.
    """
    total = before or Goodput()
    seen = set(total.counted)
    for pod in ended:
        if short_uid(pod.uid) not in seen and len(seen) < MOST_COUNTED:
            seen.add(short_uid(pod.uid))
            total = _with_pod(total, pod)
    held = max((*held_seconds, *(() if total.held_seconds is None else (total.held_seconds,))), default=None)
    total = total.model_copy(update={"held_seconds": held})
    return total.model_copy(update={"message": sentence(total)})


def _with_pod(total: Goodput, pod: EndedPod) -> Goodput:
    """Add a pod. An unmeasured figure adds nothing, and ``measured`` does not count it."""
    warm = pod.warm_bytes is not None and pod.data_bytes is not None
    stall = bool(pod.watched_seconds) and pod.stalled_seconds is not None
    hours = _times(pod.gpus, pod.mounted_seconds)
    saved_hours = _times(pod.gpus, pod.saved_seconds)
    measured = MeasuredPods(
        warm=total.measured.warm + warm,
        origin=total.measured.origin + (pod.origin_bytes is not None),
        stall=total.measured.stall + stall,
        gpu_hours=total.measured.gpu_hours + (hours is not None),
        saved=total.measured.saved + (pod.saved_seconds is not None),
        saved_gpu_hours=total.measured.saved_gpu_hours + (saved_hours is not None),
    )
    sums = {
        "data_bytes": _sum(total.data_bytes, pod.data_bytes if warm else None),
        "warm_bytes": _sum(total.warm_bytes, pod.warm_bytes if warm else None),
        "origin_bytes": _sum(total.origin_bytes, pod.origin_bytes),
        "peer_bytes": _sum(total.peer_bytes, pod.peer_bytes),
        "watched_seconds": _sum(total.watched_seconds, pod.watched_seconds if stall else None),
        "stalled_seconds": _sum(total.stalled_seconds, pod.stalled_seconds if stall else None),
        "gpu_hours": _sum(total.gpu_hours, hours),
        "saved_seconds": _sum(total.saved_seconds, pod.saved_seconds),
        "saved_gpu_hours": _sum(total.saved_gpu_hours, saved_hours),
    }
    kept = {
        "pods": total.pods + 1,
        "measured": measured,
        "counted": (*total.counted, short_uid(pod.uid)),
        "stall_source": total.stall_source or (pod.stall_source if stall else ""),
        "stall_missing": total.stall_missing or pod.stall_missing or "",
        "saved_missing": total.saved_missing or pod.saved_missing or "",
    }
    return total.model_copy(update=sums | kept)


def _sum(before: float | None, more: float | None) -> float | None:
    """Add two figures. None means not measured. Fractions are rounded to a thousandth to keep the status short."""
    if before is None or more is None:
        return before if more is None else more
    total = before + more
    return total if isinstance(total, int) else round(total, 3)


def _times(gpus: int | None, seconds: float | None) -> float | None:
    """Return GPU-hours, or None if the number of GPUs is unknown."""
    return None if gpus is None or seconds is None else round(gpus * seconds / 3600, 4)


def saved_seconds(warm_bytes: int, read_share: float, bytes_per_second: float | None) -> float | None:
    """Return the time that fetching the warm bytes from the source would have taken; None if it was not measured.

    ``read_share`` is the share of files that were read, 0 to 1. ``bytes_per_second`` is the best rate from the source
    that this node has measured.
    """
    if not warm_bytes:
        return 0.0
    return None if not bytes_per_second else warm_bytes * min(1.0, max(0.0, read_share)) / bytes_per_second


def sentence(total: Goodput) -> str:
    """Write ``held 42s, 100 % warm at start, stalled 1.2 % of the time, saved about 0.8 GPU-hours``."""
    held = "hold " + NOT_MEASURED if total.held_seconds is None else f"held {format_duration(total.held_seconds)}"
    warm = f"warm share {NOT_MEASURED}" if total.warm_share is None else f"{warm_words(total)} warm at start"
    of = f" (of {total.pods} of {total.pods + total.missed} pods)" if total.missed else ""
    return f"{held}, {warm}, {_stalled_and_saved(total)}{of}"


def _stalled_and_saved(total: Goodput) -> str:
    if total.stall_share is None and total.saved_seconds is None:
        return f"stall and savings {NOT_MEASURED}" + because(total.stall_missing)
    stalled = f"stalled {stall_words(total)} of the time"
    if total.stall_share is None:
        stalled = f"stall {NOT_MEASURED}" + because(total.stall_missing)
    return f"{stalled}, {_saved(total)}"


def because(reason: str) -> str:
    """Return the reason in parentheses after a space, or an empty string."""
    return f" ({reason})" if reason else ""


def _saved(total: Goodput) -> str:
    if total.saved_gpu_hours is not None:
        return f"saved about {total.saved_gpu_hours:.1f} GPU-hours"
    if total.saved_seconds is not None:
        return f"saved about {format_duration(total.saved_seconds)} of its pods' time"
    return f"savings {NOT_MEASURED}"


def warm_words(total: Goodput) -> str:
    """Write the warm share, rounded down so that 100 % means all."""
    return NOT_MEASURED if total.warm_share is None else f"{int(100 * total.warm_share)} %"


def stall_words(total: Goodput) -> str:
    """Write the stall share."""
    return NOT_MEASURED if total.stall_share is None else f"{100 * total.stall_share:.1f} %"


def bytes_words(count: int | None) -> str:
    """Format a number of bytes, or say that it was not measured."""
    return NOT_MEASURED if count is None else format_bytes(count)

"""What a job made of its time: what nodes measured of each of its pods, summed up so that none counts twice. Pure."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from stoker_api.meta import Model, format_bytes, format_duration

_INT64 = {"format": "int64"}
_ATOMIC = {"x-kubernetes-list-type": "atomic"}

MOST_ENDED = 32  # pods of one NodeCache
MOST_COUNTED = 2000  # pods of one job
MOST_AWAITED = 100
_UID_CHARACTERS = 8
NOT_MEASURED = "not measured"

_Bytes = Annotated[int | None, Field(json_schema_extra=_INT64, ge=0)]
_Seconds = Annotated[float | None, Field(ge=0, allow_inf_nan=False)]


class EndedPod(Model):
    """What a node measured of a pod from its first mount of a Dataset to its last one's end.

    A figure that is absent was not measured, which is something else than 0. ``savedSeconds`` is of one GPU of it.
    """

    pod: Annotated[str, Field(description="namespace/name.", max_length=320)]
    uid: Annotated[str, Field(max_length=64)]
    job: Annotated[str, Field(description="What made it, as its spec tells.", max_length=253)] = ""
    gpus: Annotated[int | None, Field(description="That its spec asks for; absent: none, or not known.", ge=1)] = None
    mounted_at: Annotated[str, Field(json_schema_extra={"format": "date-time"}, max_length=40)] = ""
    ended_at: Annotated[str, Field(json_schema_extra={"format": "date-time"}, max_length=40)] = ""
    mounted_seconds: Annotated[_Seconds, Field(description="From its first mount to its last one's end.")] = None
    data_bytes: Annotated[_Bytes, Field(description="Of the versions that it had mounted.")] = None
    warm_bytes: Annotated[_Bytes, Field(description="What of them lay on the node's disk when it mounted them.")] = None
    origin_bytes: Annotated[
        _Bytes,
        Field(description="That came from the source meanwhile; shared equally by pods that have the same mounted."),
    ] = None
    peer_bytes: Annotated[_Bytes, Field(description="The same from other nodes.")] = None
    watched_seconds: Annotated[_Seconds, Field(description="In which its stall was known.")] = None
    stalled_seconds: Annotated[_Seconds, Field(description="Of these, in which it waited for data.")] = None
    stall_source: Annotated[str, Field(description="What told most of that, as in workloads.", max_length=40)] = ""
    saved_seconds: Annotated[
        _Seconds, Field(description="Time in which warmBytes that it read would have come from the source.")
    ] = None


class AwaitedPod(Model):
    """A pod that has ended, and of which its node has not told yet."""

    uid: Annotated[str, Field(max_length=64)]
    node: Annotated[str, Field(max_length=253)]


class MeasuredPods(Model):
    """Of how many pods each figure was measured."""

    warm: int = 0
    origin: int = 0
    stall: int = 0
    gpu_hours: int = 0
    saved: int = 0
    saved_gpu_hours: int = 0


class Goodput(Model):
    """What became of a job's time, summed up over its pods. A figure that is absent was not measured of any of them."""

    message: Annotated[str, Field(description="The figures in a sentence.", max_length=512)] = ""
    complete: Annotated[bool, Field(description="The job has ended, and what nodes have to say is in it.")] = False
    pods: Annotated[int, Field(description="Of which nodes have told.", ge=0)] = 0
    missed: Annotated[int, Field(description="That have ended, and of which no node has told.", ge=0)] = 0
    measured: Annotated[MeasuredPods, Field(description="Of how many pods each figure was measured.")] = MeasuredPods()
    held_seconds: Annotated[
        _Seconds, Field(description="The longest that a pod was held at Stoker's scheduling gate.")
    ] = None
    data_bytes: Annotated[_Bytes, Field(description="That its pods had mounted, of those with warmBytes.")] = None
    warm_bytes: Annotated[_Bytes, Field(description="What of that was on their nodes' disks at their start.")] = None
    origin_bytes: Annotated[_Bytes, Field(description="That came from the source while they ran.")] = None
    peer_bytes: Annotated[_Bytes, Field(description="That came from other nodes while they ran.")] = None
    watched_seconds: Annotated[_Seconds, Field(description="Of its pods, in which their stall was known.")] = None
    stalled_seconds: Annotated[_Seconds, Field(description="Of these, in which they waited for data.")] = None
    stall_source: Annotated[str, Field(max_length=40)] = ""
    gpu_hours: Annotated[_Seconds, Field(description="GPUs that its pods asked for, times hours.")] = None
    saved_seconds: Annotated[_Seconds, Field(description="That its pods did not wait for bytes that were there.")] = (
        None
    )
    saved_gpu_hours: Annotated[_Seconds, Field(description="The same times the GPUs of each pod.")] = None
    counted: Annotated[
        tuple[Annotated[str, Field(max_length=_UID_CHARACTERS)], ...],
        Field(
            description="Beginnings of the UIDs of the pods that are in it.",
            max_length=MOST_COUNTED,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    awaited: Annotated[
        tuple[AwaitedPod, ...],
        Field(description="Pods of which a node is to tell yet.", max_length=MOST_AWAITED, json_schema_extra=_ATOMIC),
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
        """Return whether the pod of this UID is in it."""
        return short_uid(uid) in self.counted


def short_uid(uid: str) -> str:
    """Return what is remembered of a pod's UID."""
    return uid[:_UID_CHARACTERS]


def goodput(before: Goodput | None, ended: Iterable[EndedPod], held_seconds: Iterable[float] = ()) -> Goodput:
    """Return the sum over pods: ``before``, and those of ``ended`` that are not in it yet.

    ``held_seconds``: for how long pods were held, of those that were released; the longest counts.
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
    """Add a pod. What was not measured of it is not added as 0: it is not counted in ``measured`` either."""
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
    }
    return total.model_copy(update=sums | kept)


def _sum(before: float | None, more: float | None) -> float | None:
    """Add; None is not measured. Fractions are cut to a thousandth, so that a status does not grow digits."""
    if before is None or more is None:
        return before if more is None else more
    total = before + more
    return total if isinstance(total, int) else round(total, 3)


def _times(gpus: int | None, seconds: float | None) -> float | None:
    """Return GPU-hours; None where there are no GPUs that are known of."""
    return None if gpus is None or seconds is None else round(gpus * seconds / 3600, 4)


def saved_seconds(warm_bytes: int, read_share: float, bytes_per_second: float | None) -> float | None:
    """Return the time in which bytes that were warm would have come from the source; None: not measured.

    ``read_share``: 0 to 1, of the files that were read. ``bytes_per_second``: the best rate from the source that this
    node has seen.
    """
    if not warm_bytes:
        return 0.0
    return None if not bytes_per_second else warm_bytes * min(1.0, max(0.0, read_share)) / bytes_per_second


def sentence(total: Goodput) -> str:
    """Write ``held 42s, 100 % warm at start, stalled 1.2 % of the time, saved about 0.8 GPU-hours``."""
    held = "hold " + NOT_MEASURED if total.held_seconds is None else f"held {format_duration(total.held_seconds)}"
    warm = f"warm share {NOT_MEASURED}" if total.warm_share is None else f"{warm_words(total)} warm at start"
    stalled = f"stall {NOT_MEASURED}" if total.stall_share is None else f"stalled {stall_words(total)} of the time"
    of = f" (of {total.pods} of {total.pods + total.missed} pods)" if total.missed else ""
    return f"{held}, {warm}, {stalled}, {_saved(total)}{of}"


def _saved(total: Goodput) -> str:
    if total.saved_gpu_hours is not None:
        return f"saved about {total.saved_gpu_hours:.1f} GPU-hours"
    if total.saved_seconds is not None:
        return f"saved about {format_duration(total.saved_seconds)} of its pods' time"
    return f"what it saved {NOT_MEASURED}"


def warm_words(total: Goodput) -> str:
    """Write the warm share, rounded down so that 100 % means all."""
    return NOT_MEASURED if total.warm_share is None else f"{int(100 * total.warm_share)} %"


def stall_words(total: Goodput) -> str:
    """Write the stall share."""
    return NOT_MEASURED if total.stall_share is None else f"{100 * total.stall_share:.1f} %"


def bytes_words(count: int | None) -> str:
    """Write bytes, or that they were not measured."""
    return NOT_MEASURED if count is None else format_bytes(count)

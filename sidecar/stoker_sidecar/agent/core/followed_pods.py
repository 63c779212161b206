"""What each pod had of its Datasets while it had them mounted, followed from look to look. Pure.

Counters of the node become a pod's by their differences between two looks; of what several pods have mounted, each
has an equal share.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from stoker_api.goodput import EndedPod, saved_seconds
from stoker_api.meta import Model
from stoker_api.times import format_time
from stoker_sidecar.volumes.core.publish import Published, VersionKey
from stoker_tuning.frameworks.pod_hints import NO_HINTS, PodHints

# Seconds: what lies between two looks further apart than this is not known.
MOST_BETWEEN = 60.0
_MOST_DATASETS = 20
MOST_FOLLOWED = 1000


class FollowedDataset(Model):
    """A version that a pod has mounted, and what came of its Dataset since. None: not measured."""

    uid: Annotated[str, Field(max_length=64)]
    version: Annotated[str, Field(max_length=64)]
    files: int = 0
    bytes: int = 0
    warm_bytes: int | None = None
    origin_bytes: float | None = None
    peer_bytes: float | None = None


class FollowedPod(Model):
    """A pod that has Datasets mounted. ``opened``: files, as far as anyone has seen; times in seconds.

    ``since``: of the wall clock. ``stalled``: by what told it, seconds in which it waited.
    """

    pod: Annotated[str, Field(max_length=320)]
    uid: Annotated[str, Field(max_length=64)]
    job: Annotated[str, Field(max_length=253)] = ""
    gpus: int = 0
    since: float = 0.0
    mounted: float = 0.0
    datasets: Annotated[tuple[FollowedDataset, ...], Field(max_length=_MOST_DATASETS)] = ()
    opened: float = 0.0
    watched: dict[str, float] = Field(default_factory=dict)
    stalled: dict[str, float] = Field(default_factory=dict)


@dataclass(frozen=True)
class NodeLook:
    """What a node knows at one moment: ``at`` seconds of the monotonic clock, ``wall`` of the other.

    ``warm``: bytes of versions that are on the disk, as far as the fetcher has said. ``origin``, ``peers``: bytes of
    Datasets that came so far, by UID; None: the fetcher has not said. ``stalls``: by UID of the pod, the share of its
    time that it waits, and what tells it. ``opened``: files that pods have opened so far. ``hints``: of their specs.
    """

    at: float
    wall: float
    mounted: Sequence[Published] = ()
    warm: Mapping[VersionKey, int] = field(default_factory=dict)
    origin: Mapping[str, int] | None = None
    peers: Mapping[str, int] | None = None
    stalls: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    opened: Mapping[str, float] = field(default_factory=dict)
    hints: Mapping[str, PodHints] = field(default_factory=dict)

    def by_pod(self) -> dict[str, list[Published]]:
        """Return the volumes of each pod, by its UID."""
        found: dict[str, list[Published]] = {}
        for row in self.mounted:
            if row.request.pod_uid:
                found.setdefault(row.request.pod_uid, []).append(row)
        return found


def followed(
    before: Mapping[str, FollowedPod], last: NodeLook | None, now: NodeLook, *, late: bool = False
) -> dict[str, FollowedPod]:
    """Return the pods that are known at ``now``, by UID: those of ``before`` with what came since, and new ones.

    Who has nothing mounted any more is among them still: see ``ended``. ``late``: the new ones had mounted before
    anyone looked, so that what they began with is not known.
    """
    users = Counter(dataset.uid for pod in before.values() for dataset in pod.datasets)
    known = {uid: _went_on(pod, last, now, users) for uid, pod in before.items()}
    for uid, rows in now.by_pod().items():
        if uid in known:
            known[uid] = _with_new(known[uid], rows, now, late=late)
        elif len(known) < MOST_FOLLOWED:
            known[uid] = _with_new(_begun(uid, rows[0], now), rows, now, late=late)
    return known


def ended(pod: FollowedPod, at: float, rates: Mapping[str, float]) -> EndedPod:
    """Return what was measured of a pod that ended ``at`` seconds of the wall clock.

    ``rates``: the best ones from the source, in bytes a second, by UID of the Dataset.
    """
    watched, stalled = sum(pod.watched.values()), sum(pod.stalled.values())
    warm = _sum(one.warm_bytes for one in pod.datasets)
    return EndedPod(
        pod=pod.pod,
        uid=pod.uid,
        job=pod.job,
        gpus=pod.gpus or None,
        mounted_at=format_time(pod.since),
        ended_at=format_time(at),
        mounted_seconds=round(pod.mounted, 1),
        data_bytes=sum(one.bytes for one in pod.datasets),
        warm_bytes=None if warm is None else round(warm),
        origin_bytes=_whole(_sum(one.origin_bytes for one in pod.datasets)),
        peer_bytes=_whole(_sum(one.peer_bytes for one in pod.datasets)),
        watched_seconds=round(watched, 1) if watched else None,
        stalled_seconds=round(stalled, 2) if watched else None,
        stall_source=max(pod.watched, key=lambda source: pod.watched[source], default=""),
        saved_seconds=_saved(pod, rates),
    )


def _begun(uid: str, row: Published, now: NodeLook) -> FollowedPod:
    hints, request = now.hints.get(uid, NO_HINTS), row.request
    pod = f"{request.pod_namespace}/{request.pod}"
    return FollowedPod(pod=pod, uid=uid, job=hints.job, gpus=hints.gpus, since=now.wall)


def _with_new(pod: FollowedPod, rows: Iterable[Published], now: NodeLook, *, late: bool) -> FollowedPod:
    """Add the versions that it has mounted since the last look."""
    there = {(one.uid, one.version) for one in pod.datasets}
    new = {(row.uid, row.version): row for row in rows if (row.uid, row.version) not in there}
    if not new:
        return pod
    came = None if late else 0.0
    fresh = tuple(
        FollowedDataset(
            uid=row.uid,
            version=row.version,
            files=row.files,
            bytes=row.bytes,
            warm_bytes=None if late else _bounded(now.warm.get(key), row.bytes),
            origin_bytes=came if now.origin is not None else None,
            peer_bytes=came if now.peers is not None else None,
        )
        for key, row in new.items()
    )
    return pod.model_copy(update={"datasets": (*pod.datasets, *fresh)[:_MOST_DATASETS]})


def _bounded(warm: int | None, most: int) -> int | None:
    return None if warm is None else max(0, min(warm, most))


def _went_on(pod: FollowedPod, last: NodeLook | None, now: NodeLook, users: Mapping[str, int]) -> FollowedPod:
    """Return a pod with what came between two looks."""
    if last is None:
        return pod
    passed = min(MOST_BETWEEN, max(0.0, now.at - last.at))
    datasets = tuple(
        one.model_copy(
            update={
                "origin_bytes": _more(one.origin_bytes, one.uid, last.origin, now.origin, users[one.uid]),
                "peer_bytes": _more(one.peer_bytes, one.uid, last.peers, now.peers, users[one.uid]),
            }
        )
        for one in pod.datasets
    )
    changes: dict[str, object] = {"datasets": datasets, "mounted": pod.mounted + passed}
    changes["opened"] = pod.opened + _grown(last.opened.get(pod.uid, 0.0), now.opened.get(pod.uid, 0.0))
    stall = now.stalls.get(pod.uid)
    if stall is not None:
        share, source = stall
        changes["watched"] = pod.watched | {source: pod.watched.get(source, 0.0) + passed}
        changes["stalled"] = pod.stalled | {source: pod.stalled.get(source, 0.0) + passed * min(1.0, max(0.0, share))}
    return pod.model_copy(update=changes)


def _more(
    so_far: float | None, uid: str, last: Mapping[str, int] | None, now: Mapping[str, int] | None, users: int
) -> float | None:
    """Add a pod's share of what came of a Dataset; while the fetcher says nothing, nothing is known to have come."""
    if so_far is None or last is None or now is None:
        return so_far
    return so_far + _grown(last.get(uid, 0), now.get(uid, 0)) / max(1, users)


def _grown(last: float, now: float) -> float:
    """Return by how much a counter has grown; one that is smaller has begun anew."""
    return now - last if now >= last else now


def _saved(pod: FollowedPod, rates: Mapping[str, float]) -> float | None:
    """Return the seconds in which what was warm would have come; where nobody saw files opened, all counts as read."""
    files = sum(one.files for one in pod.datasets)
    share = pod.opened / files if pod.opened and files else 1.0
    if any(one.warm_bytes is None for one in pod.datasets):
        return None
    saved = _sum(saved_seconds(one.warm_bytes or 0, share, rates.get(one.uid)) for one in pod.datasets)
    return None if saved is None else round(saved, 1)


def _sum(values: Iterable[float | None]) -> float | None:
    """Add all; None where one is not known."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)

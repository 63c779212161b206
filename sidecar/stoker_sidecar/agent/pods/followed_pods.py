"""Each pod's use of its Datasets while mounted, updated at each look. Pure.

A pod gets the growth of the node's counters between two looks. Pods with the same Dataset share the growth equally.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from stoker_api.goodput import MOST_REASON, EndedPod, LastReport, saved_seconds
from stoker_api.meta import Model, shortened
from stoker_api.node_caches.node_workload import StallSource
from stoker_api.times import format_time
from stoker_sidecar.agent.core.stall import PodStalls, StallSeconds
from stoker_sidecar.volumes.core.publish import Published, VersionKey
from stoker_tuning.frameworks.pod_hints import NO_HINTS, PodHints

# Seconds: a longer interval between two looks counts as this long.
MOST_BETWEEN = 60.0
_MOST_DATASETS = 20
MOST_FOLLOWED = 1000


class FollowedDataset(Model):
    """A mounted version of a pod, and its Dataset's figures since the mount. None: not measured."""

    uid: Annotated[str, Field(max_length=64)]
    version: Annotated[str, Field(max_length=64)]
    files: int = 0
    bytes: int = 0
    warm_bytes: int | None = None
    origin_bytes: float | None = None
    peer_bytes: float | None = None


class FollowedPod(Model):
    """A pod with mounted Datasets. ``opened`` counts observed opens of files; times are in seconds.

    ``since`` is of the wall clock. ``watched`` and ``stalled`` are, by source, the seconds in which its waits were
    counted and in which it waited, summed over ``parts``, such as ranks. ``counters`` are the last values, waited and
    watched seconds, of each source's counter. ``last`` is its last report.
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
    parts: dict[str, int] = Field(default_factory=dict)
    counters: dict[str, tuple[float, float]] = Field(default_factory=dict)
    last: LastReport | None = None


@dataclass(frozen=True)
class NodeLook:
    """A node's state at one moment: ``at`` in seconds of the monotonic clock, ``wall`` of the wall clock.

    ``warm`` has the bytes of versions on the disk that the fetcher has reported. ``origin`` and ``peers`` have the
    received bytes of Datasets so far, by UID; None: not reported. ``stalls`` has the counters of waits, by UID of the
    pod. ``opened`` has the number of files that pods opened so far. ``hints`` come from their specs, ``reports`` from
    the pods.
    """

    at: float
    wall: float
    mounted: Sequence[Published] = ()
    warm: Mapping[VersionKey, int] = field(default_factory=dict)
    origin: Mapping[str, int] | None = None
    peers: Mapping[str, int] | None = None
    stalls: Mapping[str, PodStalls] = field(default_factory=dict)
    opened: Mapping[str, float] = field(default_factory=dict)
    hints: Mapping[str, PodHints] = field(default_factory=dict)
    reports: Mapping[str, LastReport] = field(default_factory=dict)

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
    """Return the known pods at ``now`` by UID: those of ``before`` with later figures, and new ones.

    Pods without mounts are still included: see ``ended``. ``late`` means that new pods had mounted before the first
    look, so that their warm bytes at the start are unknown.
    """
    users = Counter(dataset.uid for pod in before.values() for dataset in pod.datasets)
    known = {uid: _went_on(pod, last, now, users) for uid, pod in before.items()}
    for uid, rows in now.by_pod().items():
        if uid in known:
            known[uid] = _with_new(known[uid], rows, now, late=late)
        elif len(known) < MOST_FOLLOWED:
            known[uid] = _with_new(_begun(uid, rows[0], now), rows, now, late=late)
    return known


def ended(pod: FollowedPod, at: float, rates: Mapping[str, float], why_no_stall: str = "") -> EndedPod:
    """Return the measurements of a pod that ended ``at`` seconds of the wall clock.

    ``rates`` are the best rates from the source, in bytes a second, by UID of the Dataset. ``why_no_stall`` is the
    reason if its waits were not counted.
    """
    waits, saved = _waits(pod), _saved(pod, rates)
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
        watched_seconds=round(waits.watched, 1) if waits.watched else None,
        stalled_seconds=round(waits.waited, 2) if waits.watched else None,
        stall_source=_stall_source(pod),
        stall_missing=None if waits.watched else shortened(why_no_stall, MOST_REASON),
        saved_seconds=saved,
        saved_missing=_why_not_saved(pod) if saved is None else None,
        last=pod.last,
    )


def _stall_source(pod: FollowedPod) -> str:
    """Return the best source: the pod's report, else its loader's consumer, else the source with the longest count."""
    for source in (StallSource.REPORT, StallSource.CONSUMER):
        if pod.watched.get(source):
            return source
    return max((one for one in pod.watched if pod.watched[one]), key=lambda one: pod.watched[one], default="")


def _waits(pod: FollowedPod) -> StallSeconds:
    """Return its stall in seconds of one part. The kernel's counters count each interval once, so they add up."""
    source = _stall_source(pod)
    whole = source not in (StallSource.REPORT, StallSource.CONSUMER)
    apart = pod.watched.keys() - {StallSource.REPORT, StallSource.CONSUMER} if whole else {source}
    waited, watched = (sum(counted.get(one, 0.0) for one in apart) for counted in (pod.stalled, pod.watched))
    parts = max(1, pod.parts.get(source, 1))
    return StallSeconds(waited / parts, watched / parts)


def _why_not_saved(pod: FollowedPod) -> str:
    if any(one.warm_bytes is None for one in pod.datasets):
        return "the sidecar did not see the pod mount its data"
    return "the source's best rate is not known yet"


def _begun(uid: str, row: Published, now: NodeLook) -> FollowedPod:
    hints, request = now.hints.get(uid, NO_HINTS), row.request
    pod = f"{request.pod_namespace}/{request.pod}"
    return FollowedPod(pod=pod, uid=uid, job=hints.job, gpus=hints.gpus, since=now.wall)


def _with_new(pod: FollowedPod, rows: Iterable[Published], now: NodeLook, *, late: bool) -> FollowedPod:
    """Add the versions that it mounted since the last look."""
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
    """Return a pod with the growth between two looks."""
    pod = with_last_report(pod, now)
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
    return pod.model_copy(update=changes)


def with_last_report(pod: FollowedPod, now: NodeLook) -> FollowedPod:
    """Return a pod with its latest report and waits, also after its end."""
    reported = now.reports.get(pod.uid, pod.last)
    return _with_stalls(pod, now.stalls.get(pod.uid, {})).model_copy(update={"last": reported})


def _with_stalls(pod: FollowedPod, stalls: PodStalls) -> FollowedPod:
    """Add the growth of its wait counters. A counter below its last value was restarted."""
    watched, stalled, parts, counters = dict(pod.watched), dict(pod.stalled), dict(pod.parts), dict(pod.counters)
    for source, now in stalls.items():
        waited_before, watched_before = pod.counters.get(source, (0.0, 0.0))
        restarted = now.watched < watched_before
        watched[source] = watched.get(source, 0.0) + now.watched - (0.0 if restarted else watched_before)
        more = now.waited - (0.0 if restarted else waited_before)
        stalled[source] = stalled.get(source, 0.0) + max(0.0, more)
        parts[source] = max(parts.get(source, 1), now.parts)
        counters[source] = now.waited, now.watched
    return pod.model_copy(update={"watched": watched, "stalled": stalled, "parts": parts, "counters": counters})


def _more(
    so_far: float | None, uid: str, last: Mapping[str, int] | None, now: Mapping[str, int] | None, users: int
) -> float | None:
    """Add a pod's share of a Dataset's received bytes. Without a report of the fetcher, add nothing."""
    if so_far is None or last is None or now is None:
        return so_far
    return so_far + _grown(last.get(uid, 0), now.get(uid, 0)) / max(1, users)


def _grown(last: float, now: float) -> float:
    """Return the growth of a counter. A smaller value means a restart."""
    return now - last if now >= last else now


def _saved(pod: FollowedPod, rates: Mapping[str, float]) -> float | None:
    """Return the seconds that fetching the warm bytes would have taken. Without observed opens, all count as read."""
    files = sum(one.files for one in pod.datasets)
    share = pod.opened / files if pod.opened and files else 1.0
    if any(one.warm_bytes is None for one in pod.datasets):
        return None
    saved = _sum(saved_seconds(one.warm_bytes or 0, share, rates.get(one.uid)) for one in pod.datasets)
    return None if saved is None else round(saved, 1)


def _sum(values: Iterable[float | None]) -> float | None:
    """Add all values; None if one is unknown."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)

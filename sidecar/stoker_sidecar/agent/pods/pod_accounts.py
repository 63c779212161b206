"""Keeps the accounts of the node's pods across agent restarts, and reports ended pods."""

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from stoker_api.goodput import MOST_ENDED, EndedPod
from stoker_api.meta import Model
from stoker_api.node_caches.node_workload import StallSource
from stoker_api.times import parse_time
from stoker_api.tolerant import read_tolerantly
from stoker_sidecar.agent.core.stall import PodStalls, StallSeconds
from stoker_sidecar.agent.core.workload_rows import chosen_fairly, last_report
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.agent.pods.followed_pods import (
    MOST_FOLLOWED,
    FollowedPod,
    NodeLook,
    ended,
    followed,
    with_last_report,
)
from stoker_sidecar.agent.pods.node_workloads import hints_of_pods
from stoker_sidecar.linux.files import replace_text
from stoker_sidecar.threads import in_thread
from stoker_sidecar.volumes.core.publish import Published, VersionKey
from stoker_sidecar.wire.fetcher_protocol import FETCHED_BYTES, PEER_BYTES
from stoker_tuning.reports.figures import ReportSummary

log = logging.getLogger(__name__)
# Seconds between two looks without mount changes, and between two writes of the file.
LOOK_SECONDS, SAVE_SECONDS = 5.0, 30.0
# Seconds for which a node reports an ended pod: the operator reads it within seconds, people later.
TOLD_SECONDS = 3600.0
# Seconds after a pod's end in which its last report may arrive from the listener.
LAST_REPORT_SECONDS = 2.5
_MOST_FILE = 4 * 2**20  # bytes
_OURS = (FETCHED_BYTES, PEER_BYTES)


@dataclass(frozen=True)
class _LeavingPod:
    """An ended pod whose last report may still arrive. ``at`` and ``wall`` are its end, by both clocks."""

    pod: FollowedPod
    at: float
    wall: float


class _Remembered(Model):
    """The file, possibly written by another version of the agent."""

    followed: Annotated[tuple[FollowedPod, ...], Field(max_length=MOST_FOLLOWED)] = ()
    ended: Annotated[tuple[EndedPod, ...], Field(max_length=MOST_ENDED)] = ()
    left_out: int = 0


@dataclass(frozen=True)
class AccountSources:
    """Sources of pods' figures: mounts, reports, counters of waits, opened files, and best rates of Datasets.

    ``why_no_stall`` returns the reason why the waits of a pod, by UID, were not counted.
    """

    mounted: Callable[[], Sequence[Published]]
    reported: Callable[[], Mapping[str, ReportSummary]]
    seen: Callable[[], Mapping[str, PodStalls]]
    why_no_stall: Callable[[str], str]
    opened: Callable[[], Mapping[str, float]]
    rates: Callable[[], Mapping[str, float]]


class PodAccounts:
    """The accounts of a node's pods. Not thread-safe.

    ``path`` is the file that preserves them across agents. ``clock`` and ``wall`` count seconds, monotonic and since
    1970.
    """

    def __init__(
        self,
        path: Path,
        plan: NodePlan,
        sources: AccountSources,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._plan = plan
        self._sources = sources
        self._clock = clock
        self._wall = wall
        self._begun = False
        self._last: NodeLook | None = None
        self._followed: dict[str, FollowedPod] = {}
        self._leaving: dict[str, _LeavingPod] = {}
        self._ended: tuple[EndedPod, ...] = ()
        self._left_out = 0
        self._saved_at = float("-inf")
        self._unsaved = False

    async def begin(self) -> None:
        """Load the previous agent's accounts. Call this once, when the mounts are known."""
        known = await in_thread(_read, self._path)
        self._followed = {pod.uid: pod for pod in known.followed}
        self._ended, self._left_out = known.ended, known.left_out
        self._begun = True
        self._look(late=True)

    async def run(self) -> None:
        """Update and store the accounts, until cancelled."""
        while True:
            token, leaving = self._plan.changes.token(), len(self._leaving)
            self._look()
            if len(self._leaving) < leaving:
                self._plan.changes.mark()  # the account is ready to be reported
            await self._save_if_due()
            await self._plan.changes.wait(token, LAST_REPORT_SECONDS if self._leaving else LOOK_SECONDS)

    def rows(self) -> tuple[EndedPod, ...]:
        """Return the accounts of ended pods, the newest first."""
        self._look()
        oldest = self._wall() - TOLD_SECONDS
        return tuple(pod for pod in self._ended if parse_time(pod.ended_at) >= oldest)

    @property
    def left_out(self) -> int:
        """Number of ended pods that are no longer reported, because there are too many."""
        return self._left_out

    def _look(self, *, late: bool = False) -> None:
        """Update the accounts after changes, but not twice within a moment unless mounts changed."""
        if not self._begun:
            return
        mounted = self._sources.mounted()
        if self._last is not None and not late and self._is_early(mounted):
            return
        now = self._now(mounted)
        there = now.by_pod().keys()
        back = {uid: one.pod for uid, one in self._leaving.items() if uid in there}
        known = followed(self._followed | back, self._last, now, late=late)
        gone = [pod for uid, pod in known.items() if uid not in there]
        self._leaving = {uid: one for uid, one in self._leaving.items() if uid not in back}
        self._last, self._followed = now, {uid: pod for uid, pod in known.items() if uid in there}
        # A pod that returns had not ended: its mount failed and was retried.
        self._ended = tuple(pod for pod in self._ended if pod.uid not in there)
        self._unsaved = self._unsaved or bool(self._followed)
        for pod in gone:
            self._leaving[pod.uid] = _LeavingPod(pod, now.at, now.wall)
        self._end_leaving(now)

    def _end_leaving(self, now: NodeLook) -> None:
        """Close the accounts of ended pods. Pods with reports wait for their last report."""
        for uid, one in list(self._leaving.items()):
            pod = with_last_report(one.pod, now)
            self._leaving[uid] = replace(one, pod=pod)
            if pod.last is None or now.at - one.at >= LAST_REPORT_SECONDS:
                del self._leaving[uid]
                self._end([pod], one.wall)

    def _is_early(self, mounted: Sequence[Published]) -> bool:
        if self._last is None or self._leaving:
            return False
        before = {(row.request.pod_uid, row.uid, row.version) for row in self._last.mounted}
        same = before == {(row.request.pod_uid, row.uid, row.version) for row in mounted}
        return same and self._clock() - self._last.at < LOOK_SECONDS

    def _end(self, gone: Iterable[FollowedPod], wall: float) -> None:
        rates = self._sources.rates()
        new = tuple(ended(pod, wall, rates, self._sources.why_no_stall(pod.uid)) for pod in gone)
        oldest = wall - TOLD_SECONDS
        rows = (*new, *(pod for pod in self._ended if parse_time(pod.ended_at) >= oldest))
        self._ended = chosen_fairly(rows, lambda pod: pod.pod.partition("/")[0], MOST_ENDED)
        self._left_out += len(rows) - len(self._ended)
        self._unsaved, self._saved_at = True, float("-inf")  # store it at once

    def _now(self, mounted: Sequence[Published]) -> NodeLook:
        plan = self._plan
        there = bool(mounted or self._followed or self._leaving)
        counts = plan.counts if there and plan.inventory else None
        reported = self._sources.reported() if there else {}
        return NodeLook(
            at=self._clock(),
            wall=self._wall(),
            mounted=tuple(mounted),
            warm=self._warm(mounted),
            origin=_by_uid(counts, FETCHED_BYTES),
            peers=_by_uid(counts, PEER_BYTES),
            stalls=self._stalls(reported) if there else {},
            opened=self._sources.opened() if mounted else {},
            hints=hints_of_pods(mounted, ()),
            reports={uid: last_report(summary) for uid, summary in reported.items() if summary.lines},
        )

    def _warm(self, mounted: Iterable[Published]) -> dict[VersionKey, int]:
        """Return the bytes on the disk of mounted versions that the fetcher has reported."""
        found: dict[VersionKey, int] = {}
        if not self._plan.inventory:
            return found
        for uid in {row.uid for row in mounted}:
            row = self._plan.status_of(uid)
            if row is not None:
                found |= {(uid, older.version): older.warm_bytes for older in row.older}
                found[uid, row.version] = row.warm_bytes
        return found

    def _stalls(self, reported: Mapping[str, ReportSummary]) -> dict[str, PodStalls]:
        """Return the counters of each pod's waits by UID, including those of its report."""
        known = dict(self._sources.seen())
        for uid, summary in reported.items():
            if summary.watched:
                told = StallSeconds(summary.waited, summary.watched, max(1, summary.ranks))
                known[uid] = {**known.get(uid, {}), StallSource.REPORT: told}
        return known

    async def _save_if_due(self) -> None:
        if not self._unsaved or self._clock() - self._saved_at < SAVE_SECONDS:
            return
        pods = (*self._followed.values(), *(one.pod for one in self._leaving.values()))
        known = _Remembered(followed=pods[:MOST_FOLLOWED], ended=self._ended, left_out=self._left_out)
        self._unsaved, self._saved_at = False, self._clock()
        try:
            await in_thread(replace_text, self._path, known.model_dump_json(by_alias=True, exclude_none=True))
        except OSError as error:
            log.warning("pod accounts cannot be saved for a restart: %s: %s", self._path, error)


def _by_uid(counts: Iterable[tuple[str, str, str, int]] | None, wanted: str) -> dict[str, int] | None:
    """Return one counter of each Dataset by UID; None: not reported."""
    return None if counts is None else {uid: value for uid, name, _, value in counts if name == wanted}


def _read(path: Path) -> _Remembered:
    """Read the file. A missing or invalid file counts as empty. Blocks."""
    try:
        if path.stat().st_size > _MOST_FILE:
            raise ValueError(f"it is larger than {_MOST_FILE} bytes")
        return read_tolerantly(_Remembered, json.loads(path.read_text(encoding="utf-8")))[0]
    except FileNotFoundError:
        return _Remembered()
    except (OSError, ValueError, ValidationError) as error:
        log.warning("earlier pod accounts cannot be read and are lost: %s: %s", path, error)
        return _Remembered()

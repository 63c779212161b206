"""Keeps account of the node's pods, over restarts of the agent, and tells of those that have ended."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from stoker_api.goodput import MOST_ENDED, EndedPod
from stoker_api.meta import Model
from stoker_api.node_workload import NodeWorkload
from stoker_api.times import parse_time
from stoker_sidecar.agent.core.followed_pods import MOST_FOLLOWED, FollowedPod, NodeLook, ended, followed
from stoker_sidecar.agent.core.hinted_rows import hints_of_pods
from stoker_sidecar.agent.core.stall import Stall
from stoker_sidecar.agent.core.workload_rows import chosen_fairly
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.linux.files import replace_text
from stoker_sidecar.threads import in_thread
from stoker_sidecar.volumes.core.publish import Published, VersionKey
from stoker_sidecar.wire.fetcher_protocol import FETCHED_BYTES, PEER_BYTES

log = logging.getLogger(__name__)
# Seconds between two looks while nobody mounts anything, and between two writes of the file.
LOOK_SECONDS, SAVE_SECONDS = 5.0, 30.0
# Seconds for which a node tells of a pod that has ended: the operator takes it within seconds, people look later.
TOLD_SECONDS = 3600.0
_MOST_FILE = 4 * 2**20  # bytes
_OURS = (FETCHED_BYTES, PEER_BYTES)


class _Remembered(Model):
    """The file, which another version of the agent may have written."""

    followed: Annotated[tuple[FollowedPod, ...], Field(max_length=MOST_FOLLOWED)] = ()
    ended: Annotated[tuple[EndedPod, ...], Field(max_length=MOST_ENDED)] = ()
    left_out: int = 0


@dataclass(frozen=True)
class AccountSources:
    """Who knows what of pods: what they have mounted, the stalls that are seen and reported, opens, and rates."""

    mounted: Callable[[], Sequence[Published]]
    reported: Callable[[], Iterable[NodeWorkload]]
    seen: Callable[[], Mapping[str, Stall]]
    opened: Callable[[], Mapping[str, float]]
    rates: Callable[[], Mapping[str, float]]


class PodAccounts:
    """The accounts of a node's pods. Not for threads.

    ``path``: the file in which they outlive the agent. ``clock`` and ``wall`` count seconds, monotonic and since 1970.
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
        self._ended: tuple[EndedPod, ...] = ()
        self._left_out = 0
        self._saved_at = float("-inf")
        self._unsaved = False

    async def begin(self) -> None:
        """Take what the last agent knew; to be called once, when what is mounted is known."""
        known = await in_thread(_read, self._path)
        self._followed = {pod.uid: pod for pod in known.followed}
        self._ended, self._left_out = known.ended, known.left_out
        self._begun = True
        self._look(late=True)

    async def run(self) -> None:
        """Look and remember, until cancelled."""
        while True:
            token = self._plan.changes.token()
            self._look()
            await self._save_if_due()
            await self._plan.changes.wait(token, LOOK_SECONDS)

    def rows(self) -> tuple[EndedPod, ...]:
        """Return what is told of pods that have ended, the newest first; of all those on the node as it is now."""
        self._look()
        oldest = self._wall() - TOLD_SECONDS
        return tuple(pod for pod in self._ended if parse_time(pod.ended_at) >= oldest)

    @property
    def left_out(self) -> int:
        """Pods that have ended and that are told of no more, since there are too many."""
        return self._left_out

    def _look(self, *, late: bool = False) -> None:
        """Look at what changed; not again within a moment, unless other volumes are mounted."""
        if not self._begun:
            return
        mounted = self._sources.mounted()
        if self._last is not None and not late and self._is_early(mounted):
            return
        now = self._now(mounted)
        known = followed(self._followed, self._last, now, late=late)
        there = now.by_pod().keys()
        gone = [pod for uid, pod in known.items() if uid not in there]
        self._last, self._followed = now, {uid: pod for uid, pod in known.items() if uid in there}
        # Who comes again had not ended: its mount failed, and was tried again.
        self._ended = tuple(pod for pod in self._ended if pod.uid not in there)
        self._unsaved = self._unsaved or bool(self._followed)
        if gone:
            self._end(gone, now.wall)

    def _is_early(self, mounted: Sequence[Published]) -> bool:
        if self._last is None:
            return False
        before = {(row.request.pod_uid, row.uid, row.version) for row in self._last.mounted}
        same = before == {(row.request.pod_uid, row.uid, row.version) for row in mounted}
        return same and self._clock() - self._last.at < LOOK_SECONDS

    def _end(self, gone: Iterable[FollowedPod], wall: float) -> None:
        rates = self._sources.rates()
        new = tuple(ended(pod, wall, rates) for pod in gone)
        oldest = wall - TOLD_SECONDS
        rows = (*new, *(pod for pod in self._ended if parse_time(pod.ended_at) >= oldest))
        self._ended = chosen_fairly(rows, lambda pod: pod.pod.partition("/")[0], MOST_ENDED)
        self._left_out += len(rows) - len(self._ended)
        self._unsaved, self._saved_at = True, float("-inf")  # to be remembered at once

    def _now(self, mounted: Sequence[Published]) -> NodeLook:
        plan = self._plan
        counts = plan.counts if (mounted or self._followed) and plan.inventory else None
        return NodeLook(
            at=self._clock(),
            wall=self._wall(),
            mounted=tuple(mounted),
            warm=self._warm(mounted),
            origin=_by_uid(counts, FETCHED_BYTES),
            peers=_by_uid(counts, PEER_BYTES),
            stalls=self._stalls() if mounted else {},
            opened=self._sources.opened() if mounted else {},
            hints=hints_of_pods(mounted, ()),
        )

    def _warm(self, mounted: Iterable[Published]) -> dict[VersionKey, int]:
        """Return what is on the disk of versions that are mounted, as far as the fetcher has said."""
        found: dict[VersionKey, int] = {}
        if not self._plan.inventory:
            return found
        for uid in {row.uid for row in mounted}:
            row = self._plan.status_of(uid)
            if row is not None:
                found |= {(uid, older.version): older.warm_bytes for older in row.older}
                found[uid, row.version] = row.warm_bytes
        return found

    def _stalls(self) -> dict[str, tuple[float, str]]:
        """Return each pod's stall by UID: its own word, else what is seen."""
        seen = {uid: (stall.share, str(stall.source)) for uid, stall in self._sources.seen().items()}
        told = {
            row.uid: (row.stall_percent / 100, str(row.stall_source or ""))
            for row in self._sources.reported()
            if row.stall_percent is not None
        }
        return seen | told

    async def _save_if_due(self) -> None:
        if not self._unsaved or self._clock() - self._saved_at < SAVE_SECONDS:
            return
        known = _Remembered(followed=tuple(self._followed.values()), ended=self._ended, left_out=self._left_out)
        self._unsaved, self._saved_at = False, self._clock()
        try:
            await in_thread(replace_text, self._path, known.model_dump_json(by_alias=True, exclude_none=True))
        except OSError as error:
            log.warning("what pods had of their Datasets is not remembered over a restart: %s: %s", self._path, error)


def _by_uid(counts: Iterable[tuple[str, str, str, int]] | None, wanted: str) -> dict[str, int] | None:
    """Return one counter of each Dataset, by UID; None: nobody has said."""
    return None if counts is None else {uid: value for uid, name, _, value in counts if name == wanted}


def _read(path: Path) -> _Remembered:
    """Read the file. What is not there, or cannot be read, is nothing; blocks."""
    try:
        if path.stat().st_size > _MOST_FILE:
            raise ValueError(f"it is larger than {_MOST_FILE} bytes")
        return _Remembered.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return _Remembered()
    except (OSError, ValueError, ValidationError) as error:
        log.warning("what pods had of their Datasets before cannot be read and is begun anew: %s: %s", path, error)
        return _Remembered()

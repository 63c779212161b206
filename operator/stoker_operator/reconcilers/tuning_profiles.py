"""TuningProfiles: a level-triggered pass that reports validity, use and results of each in its status."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.profiles.tuningprofile import TuningProfile, TuningProfileStatus
from stoker_kube.errors import Conflict, NotFound
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_operator.core.classes.profiles import ProfileView
from stoker_operator.core.plans.live_versions import is_queued
from stoker_operator.core.status.profile_status import (
    FIGURES_EVERY,
    ProfileUse,
    pause_before,
    profile_announcements,
    profile_uses,
    roll_up_profile,
)
from stoker_operator.core.views.cluster import InvalidDataset, InvalidTrainingJob
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.loops.keyed_work import KeyedWork
from stoker_operator.reconcilers.loops.turns import KeyedAction
from stoker_operator.writes.write_budget import WritePriority
from stoker_operator.writes.writer import Writer


class TuningProfileReconciler:
    """Keeps the statuses of TuningProfiles, pass by pass; ``clock`` returns seconds since the epoch."""

    def __init__(self, writer: Writer, state: ClusterState, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._events: Final = events
        self._clock: Final = clock
        self._written_at: dict[str, float] = {}
        self._looked_at = 0.0  # time of the last look at the rules' results on all nodes
        self._again = 0.0  # when a postponed status is due
        self.work: Final = KeyedWork("tuningprofiles", clock, events, budget=writer.budget)

    async def reconcile(self) -> float | None:
        """Run one pass; return the seconds until time alone requires the next. Does not wait for writes."""
        if not len(self._state.tuning_profiles):
            return self.work.take(())
        now = self._clock()
        self._again = float("inf")
        due = self.work.take(self._actions(now))
        left = min(self._again, self._looked_at + FIGURES_EVERY) - now
        return left if due is None else min(due, left)

    def _actions(self, now: float) -> Iterator[KeyedAction]:
        tuning, caches = self._state.tuning(), self._state.node_caches.snapshot()
        with_rules = now >= self._looked_at + FIGURES_EVERY
        self._looked_at = now if with_rules else self._looked_at
        uses = profile_uses(caches, self._state.datasets.snapshot(), with_rules=with_rules)
        self._written_at = {name: at for name, at in self._written_at.items() if name in tuning.profiles}
        for name, profile in tuning.profiles.items():
            use, old = uses.get(name, ProfileUse()), profile.status
            is_default = name == tuning.default
            status = roll_up_profile(profile, use, is_default=is_default, enabled=tuning.enabled, now=now)
            if status == old:
                continue
            due = self._written_at.get(name, 0.0) + pause_before(old, status, profile.reading.size, len(caches))
            if due > now:
                self._again = min(self._again, due)
                if with_rules:  # look at figures when they may be written, not a minute from now
                    self._looked_at = min(self._looked_at, due - FIGURES_EVERY)
                continue
            meta, act = profile.metadata, partial(self._write, profile, status)
            key, about = f"status of TuningProfile {name}", profile_ref(meta)
            yield KeyedAction(key, "status", name, act, meta.generation, about, WritePriority.STATUS)

    async def _write(self, profile: ProfileView, status: TuningProfileStatus) -> None:
        try:
            written = await self._writer.tuning_profile_status(profile, status)
        except (NotFound, Conflict):
            return  # deleted or changed: the watch reports it
        self._written_at[profile.metadata.name] = self._clock()
        self._state.tuning_profiles.put(profile.metadata.name, written)
        for one in profile_announcements(profile.status, status):
            self._events.event(profile_ref(profile.metadata), one.type, one.reason, one.message)


def profile_ref(meta: ObjectMeta) -> ObjectRef:
    """Return the object of events about a TuningProfile."""
    return ObjectRef(names.API_VERSION, TuningProfile.KIND, meta.name, "", meta.uid)


def uses_of(cache: NodeCache | None) -> object:
    """Return the part of a NodeCache that requires a pass: where profiles are in use, not their results."""
    return cache.status.tuning_profiles if cache is not None else ()


def told_of(dataset: Dataset | InvalidDataset | None) -> object:
    """Return the part of a Dataset that requires a pass: its profile."""
    told = dataset.status.tuning if dataset is not None else None
    return told.profile if told is not None else ""


def planned_by(training: TrainingJob | InvalidTrainingJob | None) -> object:
    """Return the part of a TrainingJob that affects the nodes' plans."""
    return (training.spec.tuning, is_queued(training)) if isinstance(training, TrainingJob) else None

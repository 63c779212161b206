"""TuningProfiles: a level-triggered pass that says of each whether it can be read, where it is and what came of it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.meta import ObjectMeta
from stoker_api.nodecache import NodeCache
from stoker_api.trainingjob import TrainingJob
from stoker_api.tuningprofile import TuningProfile, TuningProfileStatus
from stoker_kube.errors import Conflict, NotFound
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_operator.core.live_versions import is_queued
from stoker_operator.core.profile_status import (
    FIGURES_EVERY,
    ProfileUse,
    pause_before,
    profile_announcements,
    profile_uses,
    roll_up_profile,
)
from stoker_operator.core.profiles import ProfileView
from stoker_operator.core.views import InvalidDataset, InvalidTrainingJob
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.keyed_work import KeyedWork
from stoker_operator.reconcilers.turns import KeyedAction
from stoker_operator.write_budget import WritePriority
from stoker_operator.writer import Writer


class TuningProfileReconciler:
    """Keeps the statuses of TuningProfiles, pass by pass; ``clock`` gives seconds since the epoch."""

    def __init__(self, writer: Writer, state: ClusterState, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._events: Final = events
        self._clock: Final = clock
        self._written_at: dict[str, float] = {}
        self._looked_at = 0.0  # at what came of rules on all nodes
        self._again = 0.0  # when a status is due that was postponed
        self.work: Final = KeyedWork("tuningprofiles", clock, events, budget=writer.budget)

    async def reconcile(self) -> float | None:
        """Run one pass; gives the seconds after which time alone calls for another. Waits for no write."""
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
                if with_rules:  # the next look at figures is when they may be written, not a minute from now
                    self._looked_at = min(self._looked_at, due - FIGURES_EVERY)
                continue
            meta, act = profile.metadata, partial(self._write, profile, status)
            key, about = f"status of TuningProfile {name}", profile_ref(meta)
            yield KeyedAction(key, "status", name, act, meta.generation, about, WritePriority.STATUS)

    async def _write(self, profile: ProfileView, status: TuningProfileStatus) -> None:
        try:
            written = await self._writer.tuning_profile_status(profile, status)
        except (NotFound, Conflict):
            return  # deleted, perhaps made anew: the watch tells
        self._written_at[profile.metadata.name] = self._clock()
        self._state.tuning_profiles.put(profile.metadata.name, written)
        for one in profile_announcements(profile.status, status):
            self._events.event(profile_ref(profile.metadata), one.type, one.reason, one.message)


def profile_ref(meta: ObjectMeta) -> ObjectRef:
    """Name what an event about a TuningProfile points to."""
    return ObjectRef(names.API_VERSION, TuningProfile.KIND, meta.name, "", meta.uid)


def uses_of(cache: NodeCache | None) -> object:
    """Return what of a NodeCache calls for a pass: where profiles are, not what came of them."""
    return cache.status.tuning_profiles if cache is not None else ()


def told_of(dataset: Dataset | InvalidDataset | None) -> object:
    """Return what of a Dataset calls for one: which profile it has."""
    told = dataset.status.tuning if dataset is not None else None
    return told.profile if told is not None else ""


def planned_by(training: TrainingJob | InvalidTrainingJob | None) -> object:
    """Return what of a TrainingJob counts for the plans of nodes."""
    return (training.spec.tuning, is_queued(training)) if isinstance(training, TrainingJob) else None

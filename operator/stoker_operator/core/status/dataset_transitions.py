"""Compare two statuses of a Dataset: choose its events, time its warm-up, and decide whether the write can wait."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from stoker_api.datasets.dataset_status import DatasetStatus, Phase, skipped_sentence
from stoker_api.meta import Condition
from stoker_api.names import ConditionType, Reason
from stoker_operator.core.views.conditions import find


@dataclass(frozen=True, slots=True)
class Announcement:
    """An event about the Dataset."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def urgent(old: DatasetStatus, new: DatasetStatus) -> bool:
    """Return True if more than figures changed, so that people and scripts may wait for it."""
    return _essence(old) != _essence(new)


def _essence(status: DatasetStatus) -> object:
    conditions = tuple((c.type, c.status, c.reason, c.observed_generation) for c in status.conditions)
    listing = (status.version, status.listing_id, status.listing_node, status.listed_at, status.versions_in_use)
    return status.phase, status.observed_generation, listing, conditions, sum(status.node_counts.values())


def dataset_announcements(old: DatasetStatus, new: DatasetStatus) -> tuple[Announcement, ...]:
    """Return the events of a transition that a person wants to see."""
    return (*_of_listing(old, new), *_of_nodes(old, new))


def _of_listing(old: DatasetStatus, new: DatasetStatus) -> Iterator[Announcement]:
    accepted = find(new.conditions, ConditionType.ACCEPTED)
    if accepted and accepted.status == "False" and moved(old.conditions, accepted):
        yield Announcement("Warning", accepted.reason, accepted.message)
    if accepted and accepted.status == "True" and new.observed_generation != old.observed_generation:
        yield accepted_generation(new.observed_generation)
    listed = find(new.conditions, ConditionType.LISTED)
    if listed and new.version and new.version != old.version:
        first = not old.version
        text = f"version {new.version_short}: {listed.message}"
        yield Announcement("Normal", Reason.LISTED if first else Reason.NEW_VERSION, text)
    if new.skipped and new.skipped != old.skipped:
        yield Announcement("Warning", Reason.SKIPPED_KEYS, skipped_sentence(new.skipped).removeprefix("; "))
    if listed and listed.status == "False" and moved(old.conditions, listed):
        kind: Literal["Normal", "Warning"] = "Normal" if listed.reason == Reason.LISTING else "Warning"
        yield Announcement(kind, listed.reason, listed.message)


def _of_nodes(old: DatasetStatus, new: DatasetStatus) -> Iterator[Announcement]:
    warm = find(new.conditions, ConditionType.WARM)
    if warm and new.version and moved(old.conditions, warm):
        limited = warm.status == "False" and warm.reason in (Reason.QUOTA_EXCEEDED, Reason.QUOTA_TOO_SMALL)
        if limited or warm.reason in (Reason.WARM, Reason.WARMING, Reason.PAUSED):
            yield Announcement("Warning" if limited else "Normal", warm.reason, warm.message)
    degraded = find(new.conditions, ConditionType.DEGRADED)
    if degraded and moved(old.conditions, degraded):
        if degraded.status == "True":
            yield Announcement("Warning", degraded.reason, degraded.message)
        elif find(old.conditions, ConditionType.DEGRADED):
            yield Announcement("Normal", Reason.HEALTHY, degraded.message)
    found = find(new.conditions, ConditionType.PATHS_FOUND)
    if (
        found
        and moved(old.conditions, found)
        and (found.status == "False" or find(old.conditions, ConditionType.PATHS_FOUND))
    ):
        yield Announcement("Warning" if found.status == "False" else "Normal", found.reason, found.message)
    moving = find(new.conditions, ConditionType.MOVING)
    if moving and moved(old.conditions, moving):
        yield Announcement("Normal", moving.reason, moving.message)
    yield from of_tuning(old.conditions, new.conditions)
    yield from _of_trouble(old, new)
    blocked = find(new.conditions, ConditionType.DELETION_BLOCKED)
    if blocked and moved(old.conditions, blocked):
        kind: Literal["Normal", "Warning"] = "Warning" if blocked.status == "True" else "Normal"
        yield Announcement(kind, blocked.reason, blocked.message)


def _of_trouble(old: DatasetStatus, new: DatasetStatus) -> Iterator[Announcement]:
    yield from _of_outlook(old, new)
    limited = find(new.conditions, ConditionType.LIMITED)
    if limited and moved(old.conditions, limited):
        word: Literal["Normal", "Warning"] = "Warning" if limited.status == "True" else "Normal"
        yield Announcement(word, limited.reason, limited.message)
    reconciled = find(new.conditions, ConditionType.RECONCILED)
    if reconciled and moved(old.conditions, reconciled):
        level: Literal["Normal", "Warning"] = "Warning" if reconciled.status == "False" else "Normal"
        yield Announcement(level, reconciled.reason, reconciled.message)


def _of_outlook(old: DatasetStatus, new: DatasetStatus) -> Iterator[Announcement]:
    slowed = find(new.conditions, ConditionType.SOURCE_SLOWED)
    if slowed and moved(old.conditions, slowed):
        yield Announcement("Warning" if slowed.status == "True" else "Normal", slowed.reason, slowed.message)
    timely = find(new.conditions, ConditionType.ON_TIME)
    if timely and moved(old.conditions, timely) and (timely.status == "False" or _was_late(old)):
        yield Announcement("Warning" if timely.status == "False" else "Normal", timely.reason, timely.message)


def _was_late(old: DatasetStatus) -> bool:
    before = find(old.conditions, ConditionType.ON_TIME)
    return before is not None and before.status == "False"


def of_tuning(old: Sequence[Condition], new: Sequence[Condition]) -> Iterator[Announcement]:
    """Yield the event when a tuning choice stops or starts to apply."""
    tuned = find(new, ConditionType.TUNED)
    if tuned and moved(old, tuned) and (tuned.status == "False" or find(old, ConditionType.TUNED)):
        kind: Literal["Normal", "Warning"] = "Warning" if tuned.status == "False" else "Normal"
        yield Announcement(kind, tuned.reason, tuned.message)


def accepted_generation(generation: int) -> Announcement:
    """Return the event for an accepted spec."""
    return Announcement("Normal", Reason.ACCEPTED, f"spec generation {generation} accepted")


def moved(old: Iterable[Condition], condition: Condition) -> bool:
    """Return True if ``condition`` differs from the one of its type in ``old``."""
    before = next((c for c in old if c.type == condition.type), None)
    return before is None or (before.status, before.reason) != (condition.status, condition.reason)


_RUNS = frozenset({Phase.LISTING, Phase.WARMING})
_CONTINUES = frozenset({Phase.PENDING, Phase.DEGRADED})  # a warm-up that waits; all other phases end it


class WarmUpTimes:
    """Start times of running warm-ups, by Dataset, in seconds since the epoch.

    Warm-ups that began before this process are left out, because their start is unknown.
    """

    def __init__(self) -> None:
        self._started: Final[dict[str, float]] = {}

    def note(self, key: str, old: DatasetStatus, new: DatasetStatus, now: float) -> float | None:
        """Take a change of status. Return the duration of the warm-up in seconds if it completed."""
        warm = find(new.conditions, ConditionType.WARM)
        if warm is not None and warm.status == "True":
            started = self._started.pop(key, None)
            return None if started is None else max(0.0, now - started)
        if new.phase in _RUNS and old.phase not in _RUNS:
            self._started.setdefault(key, now)
        elif new.phase not in _RUNS | _CONTINUES:
            self.forget(key)
        return None

    def forget(self, key: str) -> None:
        """Forget a deleted Dataset."""
        self._started.pop(key, None)

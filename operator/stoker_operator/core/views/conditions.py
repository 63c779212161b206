"""Kubernetes conditions: one of each type, with the time of the last status change."""

from collections.abc import Iterable
from typing import Literal

from stoker_api.meta import Condition, shortened, shortened_to_bytes
from stoker_api.names import ConditionType, Reason
from stoker_api.times import format_time

# Bytes of a message in the API server. An object has at most 17 conditions: less than 70 kB of its 1.5 MiB.
MOST_MESSAGE = 4096
_MOST_REASON = 128  # characters; reasons may come from nodes
Status = Literal["True", "False", "Unknown"]


def find(conditions: Iterable[Condition], kind: ConditionType) -> Condition | None:
    """Return the condition of that type."""
    return next((condition for condition in conditions if condition.type == kind), None)


class ConditionSet:
    """The new conditions of an object, built from the old ones."""

    def __init__(self, old: Iterable[Condition], generation: int, now: float) -> None:
        self._old = {condition.type: condition for condition in old}
        self._new: dict[str, Condition] = {}
        self._generation = generation
        self._now = now

    def set(self, kind: ConditionType, status: Status | bool, reason: Reason | str, message: str) -> None:
        """Set one condition. Its transition time stays while the status is unchanged."""
        word: Status = status if isinstance(status, str) else ("True" if status else "False")
        old = self._old.get(kind)
        since = old.last_transition_time if old and old.status == word else format_time(self._now, "milliseconds")
        self._new[kind] = Condition(
            type=str(kind),
            status=word,
            reason=shortened(str(reason), _MOST_REASON),
            message=shortened_to_bytes(message, MOST_MESSAGE),
            observed_generation=self._generation,
            last_transition_time=since,
        )

    def result(self) -> tuple[Condition, ...]:
        """Return the set conditions in the order of their calls. Conditions that were not set are gone."""
        return tuple(self._new.values())

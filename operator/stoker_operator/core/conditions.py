"""Conditions as Kubernetes keeps them: one a type, with the time of the last change of status."""

from collections.abc import Iterable
from typing import Literal

from stoker_api.meta import Condition, shortened
from stoker_api.names import ConditionType, Reason
from stoker_api.times import format_time

# Characters of a message: the API takes 32,768 in each condition, and an object with all of its conditions so long
# would be half of what its database takes.
MOST_MESSAGE = 4096
Status = Literal["True", "False", "Unknown"]


def find(conditions: Iterable[Condition], kind: ConditionType) -> Condition | None:
    """Find the condition of that type."""
    return next((condition for condition in conditions if condition.type == kind), None)


class ConditionSet:
    """The new conditions of an object in the making, from the old ones."""

    def __init__(self, old: Iterable[Condition], generation: int, now: float) -> None:
        self._old = {condition.type: condition for condition in old}
        self._new: dict[str, Condition] = {}
        self._generation = generation
        self._now = now

    def set(self, kind: ConditionType, status: Status | bool, reason: Reason | str, message: str) -> None:
        """State one condition; its transition time is kept while the status stays."""
        word: Status = status if isinstance(status, str) else ("True" if status else "False")
        old = self._old.get(kind)
        since = old.last_transition_time if old and old.status == word else format_time(self._now, "milliseconds")
        self._new[kind] = Condition(
            type=str(kind),
            status=word,
            reason=str(reason),
            message=shortened(message, MOST_MESSAGE),
            observed_generation=self._generation,
            last_transition_time=since,
        )

    def result(self) -> tuple[Condition, ...]:
        """Return the stated conditions in the order of statement; what was not stated is gone."""
        return tuple(self._new.values())

"""Grants turns to the namespace that has spent least, in round-robin order between equals.

So many objects of one namespace do not delay the few of another.
"""

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from stoker_kube.events import ObjectRef
from stoker_operator.writes.write_budget import WritePriority

# Returns the seconds until the key wants its next turn without a change, or None.
Act = Callable[[], Awaitable[float | None]]


@dataclass(frozen=True)
class KeyedAction:
    """An action that a pass requests for one object."""

    key: str  # both, in words, for the back-off and the log: "status of Dataset team/a"
    step: str  # the kind of action, each with separate slots: "status"
    scope: str  # the owner: a namespace, or a node's name
    act: Act
    mark: object = None  # the content to write: a new mark ends the wait after a failure
    about: ObjectRef | None = None  # the object of the event about a failure
    # The order when the cluster's budget is spent; None: the budget does not cover its writes.
    priority: WritePriority | None = WritePriority.START
    payers: tuple[str, ...] = ()  # the namespaces that cause its write; empty: ``scope`` alone


class Turns:
    """The waiting actions by scope, and the number of running actions."""

    def __init__(
        self, at_once: int, at_once_each: int, lent: int = 0, spent: Callable[[str], float] | None = None
    ) -> None:
        """Allow ``at_once`` running actions, ``at_once_each`` of them per scope.

        ``spent(scope)``: how much the scope has recently spent; by default all are equal. ``lent``: slots that scopes
        may borrow beyond ``at_once_each``. The other slots stay free for new scopes, even if borrowed ones never end.
        """
        self._at_once: Final = at_once
        self._at_once_each: Final = at_once_each
        self._lent: Final = lent
        self._spent: Final = spent
        self._borrowed = 0
        self._waiting: Final[OrderedDict[str, dict[str, KeyedAction]]] = OrderedDict()
        self._running: Final[Counter[str]] = Counter()

    def replace(self, found: Mapping[str, dict[str, KeyedAction]]) -> None:
        """Replace the waiting actions, by scope and key. Keeps a reference to ``found``.

        A scope keeps its place in the round, and a waiting key its place in its scope: passes come faster than a long
        queue drains, and each hands in its first objects again.
        """
        for scope in self._waiting.keys() - found.keys():
            del self._waiting[scope]
        for scope, new in found.items():
            known = self._waiting.get(scope, {}) if len(new) > 1 else {}
            self._waiting[scope] = {key: new[key] for key in known if key in new} | new if known else new

    def next_scope(self) -> str | None:
        """Return the scope of the next action to start; None if none may."""
        if self._running.total() >= self._at_once:
            return None
        scopes = (one for one in self._waiting if self._may_begin(one))
        return next(scopes, None) if self._spent is None else min(scopes, key=self._spent, default=None)

    def begin(self) -> KeyedAction | None:
        """Take the next action that may start; it counts as running until ``end``. None if no action may start."""
        scope = self.next_scope()
        if scope is None:
            return None
        actions = self._waiting[scope]
        action = actions.pop(next(iter(actions)))
        self._waiting.move_to_end(scope)
        if not actions:
            del self._waiting[scope]
        self._running[scope] += 1
        self._borrowed += self._running[scope] > self._at_once_each
        return action

    def _may_begin(self, scope: str) -> bool:
        return self._running[scope] < self._at_once_each or self._borrowed < self._lent

    def end(self, action: KeyedAction) -> None:
        """Count a running action as ended."""
        self._borrowed -= self._running[action.scope] > self._at_once_each
        self._running[action.scope] -= 1
        if not self._running[action.scope]:
            del self._running[action.scope]

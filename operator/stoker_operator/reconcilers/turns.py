"""Whose turn it is: a round over the namespaces, so that the many objects of one do not delay the few of another."""

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from stoker_kube.events import ObjectRef
from stoker_operator.write_budget import WritePriority

# Gives the seconds after which the key wants its next turn even if nothing changes, or None.
Act = Callable[[], Awaitable[float | None]]


@dataclass(frozen=True)
class KeyedAction:
    """One wish of a pass: what is to be done to one object."""

    key: str  # both, in words, for the back-off and the log: "status of Dataset team/a"
    step: str  # the kind of action, each with slots of its own: "status"
    scope: str  # whose it is: a namespace, or a node's name
    act: Act
    mark: object = None  # what it would write: a failure with another mark is not waited for
    about: ObjectRef | None = None  # the object to which a failure is told by an event
    # Whose turn it is when the cluster's budget is spent; None: its writes are not of the budget.
    priority: WritePriority | None = WritePriority.START


class Turns:
    """The actions that wait, by scope, and how many of each are under way."""

    def __init__(self, at_once: int, at_once_each: int, lent: int = 0) -> None:
        """Allow ``at_once`` actions under way, ``at_once_each`` of them of one scope.

        ``lent``: so many of all are lent to scopes that have more to do than that. The others are there for whoever
        comes next, even if what is lent never ends.
        """
        self._at_once: Final = at_once
        self._at_once_each: Final = at_once_each
        self._lent: Final = lent
        self._borrowed = 0
        self._waiting: Final[OrderedDict[str, dict[str, KeyedAction]]] = OrderedDict()
        self._running: Final[Counter[str]] = Counter()

    @property
    def idle(self) -> bool:
        """True when nothing waits."""
        return not self._waiting

    def replace(self, found: Mapping[str, dict[str, KeyedAction]]) -> None:
        """Let these wait, by scope and key, and forget the ones that waited until now. What is given is kept.

        A scope keeps its place in the round, and a key that waited already its place in its scope: passes come faster
        than a long queue gets done, and each wishes for its first objects again.
        """
        for scope in self._waiting.keys() - found.keys():
            del self._waiting[scope]
        for scope, new in found.items():
            known = self._waiting.get(scope, {}) if len(new) > 1 else {}  # thousands of nodes have one action each
            self._waiting[scope] = {key: new[key] for key in known if key in new} | new if known else new

    def begin(self) -> KeyedAction | None:
        """Take the next one that may begin, which counts as under way until ``end``; None when there is none."""
        if self._running.total() >= self._at_once:
            return None
        scope = next((one for one in self._waiting if self._may_begin(one)), None)
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
        """Count one that was under way as ended."""
        self._borrowed -= self._running[action.scope] > self._at_once_each
        self._running[action.scope] -= 1
        if not self._running[action.scope]:
            del self._running[action.scope]

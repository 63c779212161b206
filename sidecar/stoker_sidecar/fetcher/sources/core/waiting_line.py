"""The requests of one lane that wait: owners in the order in which they asked, of each its own by their weights."""

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Generic, NamedTuple, Protocol, TypeVar


class TurnClass(NamedTuple):
    """A class of requests that takes turns with its siblings. ``key``: separates classes of the same weight."""

    weight: int
    key: float = 0.0


class WeightedTurns:
    """Weighted turns of classes. An inactive class earns no claim to the turns that it skipped."""

    def __init__(self) -> None:
        self._starts: dict[TurnClass, float] = {}
        self._now = 0.0  # virtual time: the start of the last turn

    def in_order(self, classes: Iterable[TurnClass]) -> list[TurnClass]:
        """Return the classes that want a turn, next one first. Of equals, the heaviest is first."""
        return sorted(classes, key=lambda one: (self._start(one), -one.weight, one.key))

    def take(self, one: TurnClass, cost: float = 1.0) -> None:
        """Note that a class took a turn. ``cost``: the number of turns that it counts for."""
        self._now = self._start(one)
        self._starts[one] = self._now + cost / one.weight

    def _start(self, one: TurnClass) -> float:
        return max(self._starts.get(one, 0.0), self._now)


class Waiting(Protocol):
    """A request that can wait.

    ``place``: its place in the line, set there. ``turns``: its class among its ``owner``'s.
    """

    place: int
    owner: str
    turns: TurnClass


_R = TypeVar("_R", bound=Waiting)


class _OwnersRequests(Generic[_R]):
    """The requests of one owner that wait, the oldest of each class first."""

    def __init__(self) -> None:
        self.classes: dict[TurnClass, dict[_R, None]] = {}
        self.turns = WeightedTurns()

    def foremost(self) -> _R:
        if len(self.classes) == 1:
            for waiting in self.classes.values():
                return next(iter(waiting))
        return next(self.in_order())

    def in_order(self) -> Iterator[_R]:
        """Yield the first request of each class, in order of their turns."""
        for one in self.turns.in_order(self.classes) if len(self.classes) > 1 else self.classes:
            yield next(iter(self.classes[one]))


class WaitingLine(Generic[_R]):
    """A line in which each owner keeps the places of its requests, and chooses which of its requests uses a place.

    So weights change nothing between owners: each gets the same turns in the same order as without weights. The
    requests of an owner with one weight go in order of arrival. ``places``: the request of each place; read-only.
    """

    def __init__(self) -> None:
        self.places: dict[int, _R] = {}
        self._owners: dict[str, _OwnersRequests[_R]] = {}
        self._numbers = count(1)

    def __contains__(self, request: _R) -> bool:
        """Return True if the request waits here."""
        return self.places.get(request.place) is request

    def __iter__(self) -> Iterator[_R]:
        """All that wait, by their places."""
        return iter(self.places.values())

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return len(self.places)

    def add(self, request: _R) -> None:
        """Put a request at the end."""
        request.place = next(self._numbers)
        self.places[request.place] = request
        if (owned := self._owners.get(request.owner)) is None:
            owned = self._owners[request.owner] = _OwnersRequests()
        if (alike := owned.classes.get(request.turns)) is None:
            alike = owned.classes[request.turns] = {}
        alike[request] = None

    def remove(self, request: _R) -> bool:
        """Remove a canceled request. Return True if it was here."""
        if request not in self:
            return False
        self._forget(request)
        return True

    def take(self, request: _R) -> None:
        """Remove a request that starts. It used its owner's turn."""
        owned = self._owners[request.owner]
        if len(owned.classes) > 1:
            owned.turns.take(request.turns)
        foremost = next(iter(self.places.values()))
        if foremost.owner != request.owner:  # owners with earlier places are held back
            foremost = next(one for one in self.places.values() if one.owner == request.owner)
        if foremost is not request:
            foremost.place, request.place = request.place, foremost.place
            self.places[foremost.place], self.places[request.place] = foremost, request
        self._forget(request)

    def first(self, held: Callable[[_R], bool] | None = None) -> _R | None:
        """Return the next request that is not ``held`` back; None: there are none."""
        if held is None:
            for place in self.places.values():
                return self._owners[place.owner].foremost()
            return None
        seen: set[str] = set()
        for place in self.places.values():
            if place.owner in seen:
                continue
            for request in self._owners[place.owner].in_order():
                if not held(request):
                    return request
            seen.add(place.owner)
        return None

    def least_wanted(self, owner: str | None = None) -> _R:
        """Return the oldest request of the owner's lightest class.

        If this owner has no requests, use the first owner in line. Raises StopIteration if the line is empty.
        """
        owned = self._owners.get(owner) if owner is not None else None
        if owned is None:
            owned = self._owners[next(iter(self)).owner]
        return next(iter(owned.classes[min(owned.classes)]))

    def _forget(self, request: _R) -> None:
        del self.places[request.place]
        owned, kind = self._owners[request.owner], request.turns
        alike = owned.classes[kind]
        del alike[request]
        if not alike:
            del owned.classes[kind]
            if not owned.classes:
                del self._owners[request.owner]

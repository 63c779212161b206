"""The requests of one lane that wait: owners in the order in which they asked, of each its own by their weights."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Generic, Protocol, TypeVar

from stoker_sidecar.fetcher.core.weighted_turns import TurnClass, WeightedTurns


class Waiting(Protocol):
    """What can wait. ``place``: in the line, given by it; ``turns``: what it takes turns as, among its ``owner``'s."""

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
        """Yield the foremost of each class, whose turn it is first."""
        for one in self.turns.in_order(self.classes) if len(self.classes) > 1 else self.classes:
            yield next(iter(self.classes[one]))


class WaitingLine(Generic[_R]):
    """A line in which each owner has the places that its requests came to, and decides who of its own takes them.

    So weights move nothing between owners: as many turns of each, in the same order, as without any. An owner whose
    requests have one weight has them go in the order in which they came. ``places``: who has which; not to be changed.
    """

    def __init__(self) -> None:
        self.places: dict[int, _R] = {}
        self._owners: dict[str, _OwnersRequests[_R]] = {}
        self._numbers = count(1)

    def __contains__(self, request: _R) -> bool:
        """Tell whether it waits here."""
        return self.places.get(request.place) is request

    def __iter__(self) -> Iterator[_R]:
        """All that wait, by their places."""
        return iter(self.places.values())

    def __len__(self) -> int:
        """Return how many wait."""
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
        """Take a request out that is given up; return whether it was here."""
        if request not in self:
            return False
        self._forget(request)
        return True

    def take(self, request: _R) -> None:
        """Take out one that ``first`` returned and that goes: it has had the foremost place of its owner."""
        owned = self._owners[request.owner]
        if len(owned.classes) > 1:
            owned.turns.take(request.turns)
        foremost = next(iter(self.places.values()))
        if foremost.owner != request.owner:  # who would be before it is held back
            foremost = next(one for one in self.places.values() if one.owner == request.owner)
        if foremost is not request:
            foremost.place, request.place = request.place, foremost.place
            self.places[foremost.place], self.places[request.place] = foremost, request
        self._forget(request)

    def first(self, held: Callable[[_R], bool] | None = None) -> _R | None:
        """Return whose turn it is, of those that are not ``held`` back; None: nobody's."""
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
        """Return the oldest of the lightest that an owner has here; of who has the foremost place, where it has none.

        Raises StopIteration when nobody waits.
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

"""Speeds of the last seconds, from batches of which each saw a share of the time. Pure."""

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)  # what names a tree

# Seconds that a speed is about.
WINDOW = 15.0
_MOST_ENTRIES = 256


class ReadSpeed(NamedTuple):
    """Items a second, and the share of them that was seen; 0 where nothing was looked at."""

    items: float
    share: float


class _Span(NamedTuple):
    until: float
    seconds: float
    seen: float


@dataclass
class SeenTime:
    """For how much of the last seconds a tree was looked at."""

    _spans: "deque[_Span]" = field(default_factory=lambda: deque(maxlen=_MOST_ENTRIES))

    def add(self, since: float, until: float, share: float) -> None:
        """Note a batch."""
        if until > since:
            self._spans.append(_Span(until, until - since, (until - since) * share))

    def lately(self, now: float) -> tuple[float, float]:
        """Return the seconds, and of these the seconds that were seen."""
        recent = [span for span in self._spans if now - span.until <= WINDOW]
        return sum(span.seconds for span in recent), sum(span.seen for span in recent)


@dataclass
class RecentOpens(Generic[T]):
    """How many opens of each tree one workload was seen to make in the last seconds."""

    _batches: "deque[tuple[float, T, float]]" = field(default_factory=lambda: deque(maxlen=_MOST_ENTRIES))

    def add(self, until: float, tree: T, opens: float) -> None:
        """Note a batch."""
        self._batches.append((until, tree, opens))

    def lately(self, now: float) -> dict[T, float]:
        """Return the opens by tree."""
        found: dict[T, float] = {}
        for until, tree, opens in self._batches:
            if now - until <= WINDOW:
                found[tree] = found.get(tree, 0.0) + opens
        return found


def speed(opens: Mapping[T, float], times: Mapping[T, SeenTime], now: float) -> ReadSpeed:
    """Return the speed of one workload, over all trees that it reads; the share is that of the tree it reads most."""
    items, share, most = 0.0, 0.0, -1.0
    for tree, count in opens.items():
        seconds, seen = times[tree].lately(now) if tree in times else (0.0, 0.0)
        if seen <= 0:
            continue
        items += count / seen
        if count > most:
            most, share = count, seen / seconds
    return ReadSpeed(items, share)

"""Recent read rates, from batches that each cover a share of the time. Pure."""

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)  # the key of a tree

# Seconds covered by a rate; and the seconds after a phase change until a rate exists.
WINDOW, LEAST = 15.0, 2.0
_MOST_ENTRIES = 256
_ALWAYS = float("-inf")


class ReadSpeed(NamedTuple):
    """Items per second, and the observed share of them; 0 without observation.

    ``items`` is None in the first seconds of a phase.
    """

    items: float | None
    share: float


class _Span(NamedTuple):
    until: float
    seconds: float
    seen: float


class _Opens(NamedTuple, Generic[T]):
    since: float
    until: float
    tree: T
    opens: float


@dataclass
class SeenTime:
    """The observed time of a tree in the last seconds."""

    _spans: "deque[_Span]" = field(default_factory=lambda: deque(maxlen=_MOST_ENTRIES))

    def add(self, since: float, until: float, share: float) -> None:
        """Record a batch."""
        if until > since:
            self._spans.append(_Span(until, until - since, (until - since) * share))

    def lately(self, now: float, since: float = _ALWAYS) -> tuple[float, float]:
        """Return the seconds after ``since``, and the observed part of them."""
        recent = [span for span in self._spans if now - span.until <= WINDOW and span.until - span.seconds >= since]
        return sum(span.seconds for span in recent), sum(span.seen for span in recent)


@dataclass
class RecentOpens(Generic[T]):
    """A workload's observed opens of each tree in the last seconds."""

    _batches: "deque[_Opens[T]]" = field(default_factory=lambda: deque(maxlen=_MOST_ENTRIES))

    def add(self, since: float, until: float, tree: T, opens: float) -> None:
        """Record a batch."""
        self._batches.append(_Opens(since, until, tree, opens))

    def lately(self, now: float, since: float = _ALWAYS) -> dict[T, float]:
        """Return the opens by tree, from batches that started after ``since``."""
        found: dict[T, float] = {}
        for begun, until, tree, opens in self._batches:
            if now - until <= WINDOW and begun >= since:
                found[tree] = found.get(tree, 0.0) + opens
        return found


def speed(recent: RecentOpens[T], times: Mapping[T, SeenTime], now: float, since: float = _ALWAYS) -> ReadSpeed:
    """Return the rate of a workload over all trees that it reads. The share is that of its most-read tree.

    ``since`` is the start of its phase. Earlier reads are excluded.
    """
    items, share, most = 0.0, 0.0, -1.0
    for tree, count in recent.lately(now, since).items():
        seconds, seen = times[tree].lately(now, since) if tree in times else (0.0, 0.0)
        if seen <= 0:
            continue
        items += count / seen
        if count > most:
            most, share = count, seen / seconds
    return ReadSpeed(items if now - since >= LEAST else None, share)

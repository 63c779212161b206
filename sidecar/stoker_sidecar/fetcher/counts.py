"""Counts what happens to a dataset, for metrics."""

from collections import Counter

from stoker_sidecar.wire.fetcher_protocol import Count


class Counts:
    """From the start of this process on."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, amount: int = 1, label: str = "") -> None:
        """``name``: one of wire.fetcher_protocol.COUNTS; ``label``: of a closed set of words."""
        self._counts[name, label] += amount

    def rows(self, uid: str) -> tuple[Count, ...]:
        """Of this dataset, in order."""
        return tuple(Count(uid, name, label, value) for (name, label), value in sorted(self._counts.items()))

"""What metrics in Prometheus's text format say, and how they changed between two looks. Pure."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

# Labels' values may hold anything but these are ours and the API server's, which hold no quotes.
_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)")
_HAIR = 1e-9  # by which 0.99 x 100 may be more than 99
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Sample:
    """One line: a series and its value."""

    name: str
    labels: Labels
    value: float


def parse(text: str, names: Iterable[str]) -> list[Sample]:
    """Return the samples of these names; the API server has 100,000 lines of others."""
    wanted = frozenset(names)
    found = []
    for line in text.splitlines():
        if line.partition("{")[0].partition(" ")[0] in wanted and (match := _LINE.fullmatch(line)):
            found.append(Sample(match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))
    return found


def total(samples: Iterable[Sample], name: str, fits: Callable[[Labels], bool] = lambda labels: True) -> float:
    """Return the sum of a name's values over the series whose labels fit."""
    return sum(one.value for one in samples if one.name == name and fits(one.labels))


def by_label(samples: Iterable[Sample], name: str, label: str) -> Counter[str]:
    """Return a name's values, whole numbers, summed by what their series say for one label."""
    sums = Counter[str]()
    for one in samples:
        if one.name == name:
            sums[one.labels.get(label, "")] += round(one.value)
    return sums


def worst_bucket(before: Sequence[Sample], after: Sequence[Sample], name: str, fits: Callable[[Labels], bool]) -> float:
    """Return the upper edge of the highest bucket of a histogram in which something fell in between; 0.0: nothing did.

    So the longest observation is known to within a bucket; infinite when it is above them all.
    """
    old, new = _buckets(before, name, fits), _buckets(after, name, fits)
    edges = sorted(new)
    highest, below = 0.0, 0.0
    for edge in edges:
        grown = new[edge] - old.get(edge, 0.0)
        if grown > below:
            highest, below = edge, grown
    return highest


def _buckets(samples: Sequence[Sample], name: str, fits: Callable[[Labels], bool]) -> dict[float, float]:
    rows = (one for one in samples if one.name == f"{name}_bucket" and fits(one.labels))
    found: dict[float, float] = {}
    for one in rows:
        edge = float(one.labels["le"])
        found[edge] = found.get(edge, 0.0) + one.value
    return found


def quantile(values: Sequence[float], share: float) -> float:
    """Return the least value that at least this share of them does not exceed. Raises ValueError for none."""
    if not values:
        raise ValueError("there is no quantile of nothing")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered) - _HAIR) - 1)]

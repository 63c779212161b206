"""Metrics in Prometheus's text format, and their changes between two readings. Pure."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

# Label values may contain any character. Those of Stoker and of the API server contain no quotes.
_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)")
_HAIR = 1e-9  # tolerance: 0.99 x 100 may be more than 99
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Sample:
    """One line: a series and its value."""

    name: str
    labels: Labels
    value: float


def parse(text: str, names: Iterable[str]) -> list[Sample]:
    """Return the samples of these names. The API server has 100,000 lines of other metrics."""
    wanted = frozenset(names)
    found = []
    for line in text.splitlines():
        if line.partition("{")[0].partition(" ")[0] in wanted and (match := _LINE.fullmatch(line)):
            found.append(Sample(match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))
    return found


def total(samples: Iterable[Sample], name: str, fits: Callable[[Labels], bool] = lambda labels: True) -> float:
    """Return the sum of a name's values over the series with these labels."""
    return sum(one.value for one in samples if one.name == name and fits(one.labels))


def by_label(samples: Iterable[Sample], name: str, label: str) -> Counter[str]:
    """Return a name's values, as whole numbers, summed by the values of one label."""
    sums = Counter[str]()
    for one in samples:
        if one.name == name:
            sums[one.labels.get(label, "")] += round(one.value)
    return sums


def worst_bucket(before: Sequence[Sample], after: Sequence[Sample], name: str, fits: Callable[[Labels], bool]) -> float:
    """Return the upper edge of the highest histogram bucket that grew in between, or 0.0 if none grew.

    So the longest observation is known to within a bucket. The result is infinite if it is above all edges.
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
    """Return the least value that this share of the values does not exceed. Raises ValueError without values."""
    if not values:
        raise ValueError("there is no quantile of nothing")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered) - _HAIR) - 1)]

"""The growth of a cost with the size of a cluster: the exponent of the power law that fits best. Pure."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import linear_regression

from bench.report import Row

_SIZE = re.compile(r"([\d,]+) nodes")
# Replaces a cost of zero, which neither a power law nor a logarithm can represent.
_LEAST = 1e-6

# Figures of the control plane to compare over the sizes, with the names that ``figure_of`` returns.
GROWING = (
    "operator: CPU ms of one report of free space",
    "operator: CPU ms of one refetch",
    "operator: CPU s of a cold start",
    "operator: MB RSS at most",
)
# {figure: {nodes: value}}
Curves = dict[str, dict[int, float]]


@dataclass(frozen=True)
class PowerLaw:
    """A cost of ``factor * size ** exponent``. Exponent 0 is constant, 1 is proportional."""

    factor: float
    exponent: float

    def at(self, size: float) -> float:
        """Return the predicted value for a size."""
        return self.factor * math.pow(size, self.exponent)


def fit(points: Mapping[int, float]) -> PowerLaw | None:
    """Return the least-squares line through the logarithms of sizes and values. None for fewer than two points."""
    if len(points) < 2:
        return None
    sizes = [math.log(size) for size in points]
    values = [math.log(max(value, _LEAST)) for value in points.values()]
    slope, intercept = linear_regression(sizes, values)
    return PowerLaw(math.exp(intercept), slope)


def size_of(case: str) -> int | None:
    """Return the number of nodes in the name of a case, or None."""
    found = _SIZE.match(case)
    return int(found[1].replace(",", "")) if found else None


def curves_by_size(rows: Iterable[Row], figures: Iterable[str]) -> Curves:
    """Return the medians of these figures (systems with units, ``system: unit``) by the number of nodes."""
    found: Curves = {figure: {} for figure in figures}
    for row in rows:
        size, figure = size_of(row.case), figure_of(row)
        if size is not None and figure in found:
            found[figure][size] = row.median
    return {figure: points for figure, points in found.items() if points}


def figure_of(row: Row) -> str:
    """Return the name of a row's figure without the size."""
    return f"{row.system}: {row.unit}"

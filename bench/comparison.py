"""Two runs beside each other, figure by figure: what a change of the code did. Pure."""

from collections.abc import Sequence

from bench.report import Row
from bench.tables import number, spread

HEAD = ("workload", "case", "system", "unit", "before", "after", "after / before", "")
_NOISE = "ranges overlap"


def compared(before: Sequence[Row], after: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return a line for each figure that both runs have, with its head."""
    earlier = {_key(row): row for row in before}
    pairs = [(earlier[_key(row)], row) for row in after if _key(row) in earlier]
    return [HEAD, *(_line(old, new) for old, new in pairs)]


def _key(row: Row) -> tuple[str, str, str, str]:
    return row.workload, row.case, row.system, row.unit


def _line(before: Row, after: Row) -> tuple[str, ...]:
    factor = number(after.median / before.median) if before.median else ""
    return (*_key(after), spread(before.samples), spread(after.samples), factor, _remark(before, after))


def _remark(before: Row, after: Row) -> str:
    """Say whether samples of the one lie among those of the other, which a single sample cannot tell."""
    if min(len(before.samples), len(after.samples)) < 2:
        return ""
    apart = max(before.samples) < min(after.samples) or max(after.samples) < min(before.samples)
    return "" if apart else _NOISE

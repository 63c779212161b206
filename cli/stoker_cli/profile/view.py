"""A profile on a terminal: tables and bars."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stoker_cli.output import printable
from stoker_cli.profile.result import (
    PART_COLUMNS,
    PREDICTION_COLUMNS,
    QUALITY_COLUMNS,
    Profile,
    part_rows,
    prediction_rows,
    quality_rows,
)
from stoker_cli.render import table

_WIDTH = 60  # columns of the longest bar
# Each part has a pattern, so that bars are readable without color.
_STYLES = {"compute": ("█", "green"), "preparation": ("▓", "yellow"), "fetch": ("▒", "red")}


def profile_view(profile: Profile) -> RenderableType:
    """Return tables, bars and notes."""
    head = Text(f"{printable(profile.subject)}: {profile.split.seconds:.2f} s", style="bold")
    parts = [head, "", table(PART_COLUMNS, part_rows(profile)), "", *_bars(profile), ""]
    parts.append(table(PREDICTION_COLUMNS, prediction_rows(profile)))
    if profile.quality:
        parts += ["", table(QUALITY_COLUMNS, quality_rows(profile))]
    if profile.notes:
        parts += ["", *profile.notes]
    return Group(*parts)


def _bars(profile: Profile) -> Iterator[RenderableType]:
    """Yield a bar for the measured epoch and for each prediction, with a common scale."""
    split = profile.split
    shown = {"compute": split.compute, "preparation": split.preparation or 0.0, "fetch": split.fetch or 0.0}
    longest = max([split.seconds, split.parts_sum, *(prediction.seconds for prediction in profile.predictions)])
    grid = Table.grid(padding=(0, 2))
    grid.add_row("as it is", _stacked(shown, longest))
    for prediction in profile.predictions:
        stall = max(0.0, prediction.seconds - split.compute)
        kind = "fetch" if prediction.bound == "bandwidth" else "preparation"
        grid.add_row(prediction.change, _stacked({"compute": prediction.seconds - stall, kind: stall}, longest))
    yield grid
    legend = Text(" " * 2)
    for name, (sign, colour) in _STYLES.items():
        legend.append(f"{sign} ", colour).append(f"{name}  ")
    yield legend


def _stacked(parts: dict[str, float], longest: float) -> Text:
    """Return one bar. Ends are rounded, not lengths, so that rounding errors do not add up."""
    bar, at, seconds = Text(), 0, 0.0
    for name, value in parts.items():
        seconds += value
        end = round(_WIDTH * seconds / longest) if longest > 0 else 0
        sign, colour = _STYLES[name]
        bar.append(sign * (end - at), colour)
        at = end
    return bar.append(f" {seconds:.2f} s")

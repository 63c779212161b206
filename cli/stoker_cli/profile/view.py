"""A profile as tables and bars on a terminal, or as a PNG, which needs matplotlib from an extra."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stoker_cli.errors import CliError
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


_COLOURS = {"compute": "tab:green", "preparation": "gold", "fetch": "tab:red"}
_PANEL, _HEIGHT = 5.0, 4.0  # inches


def require_plot() -> None:
    """Import matplotlib before the measurement. Raises CliError if it is not installed."""
    try:
        import matplotlib.figure  # noqa: F401 - late: few profiles need it
    except ModuleNotFoundError as error:
        raise CliError("--png needs matplotlib. Run: pip install 'stoker[plot]' (in a checkout: '.[plot]')") from error


def require_folder(file: Path) -> None:
    """Check that the file can be written, before the measurement. Raises CliError."""
    folder = file.absolute().parent
    if not folder.is_dir():
        raise CliError(f"--png {file}: the folder {folder} does not exist. Create it first.")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise CliError(f"--png {file} is not writable for this user. Use another file.")


def draw_profile(profile: Profile, file: Path) -> None:
    """Write the PNG. Raises CliError."""
    from matplotlib.figure import Figure

    count = 3 if profile.quality else 2
    figure = Figure(figsize=(_PANEL * count, _HEIGHT), layout="constrained")
    panels = figure.subplots(1, count)
    figure.suptitle(profile.subject)
    _parts(profile, panels[0])
    _predicted(profile, panels[1])
    if profile.quality:
        _quality(profile, panels[2])
    try:
        figure.savefig(file, format="png", dpi=120)
    except OSError as error:
        raise CliError(f"{file} cannot be written: {error.strerror}.") from error


def _parts(profile: Profile, panel: "Axes") -> None:
    split, below = profile.split, 0.0
    for name, seconds in (("compute", split.compute), ("preparation", split.preparation), ("fetch", split.fetch)):
        if seconds is not None:
            panel.bar([0], [seconds], bottom=below, color=_COLOURS[name], label=name, width=0.5)
            below += seconds
    panel.axhline(split.seconds, color="black", linestyle="--", label="measured")
    panel.set_xticks([])
    panel.set_xlim(-0.6, 0.6)
    panel.set_ylabel("seconds")
    panel.set_title("where the time goes")
    panel.legend(loc="lower right")


def _predicted(profile: Profile, panel: "Axes") -> None:
    rows = [
        ("as it is", profile.split.seconds),
        *((prediction.change, prediction.seconds) for prediction in profile.predictions),
    ]
    names, seconds = zip(*reversed(rows), strict=True)
    panel.barh(names, seconds, color="tab:blue")
    panel.axvline(profile.split.compute, color="tab:green", linestyle="--", label="compute")
    panel.set_xlabel("seconds")
    panel.set_title("predicted time")
    panel.legend(loc="lower right")


def _quality(profile: Profile, panel: "Axes") -> None:
    ratios = [point.ratio for point in profile.quality]
    panel.plot(ratios, [point.seconds[0] for point in profile.quality], "o-", color="tab:red", label="epoch, cold")
    panel.plot(ratios, [point.warm_seconds for point in profile.quality], "o-", color="tab:blue", label="epoch, warm")
    panel.set_xlabel("quality ratio")
    panel.set_ylabel("seconds")
    panel.set_ylim(bottom=0)
    shares = panel.twinx()
    for epoch in range(2):
        coverage = [100 * point.coverage[epoch] for point in profile.quality]
        label, alpha = f"seen after {epoch + 1}, %", 1 - 0.5 * epoch
        shares.plot(ratios, coverage, linestyle=":", marker="s", color="grey", alpha=alpha, label=label)
    shares.set_ylim(0, 105)
    lines = [*panel.get_lines(), *shares.get_lines()]
    panel.legend(lines, [str(line.get_label()) for line in lines], loc="lower right")
    panel.set_title("a share of the samples an epoch")

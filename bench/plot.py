"""Plots of training simulations and of growth with a cluster. Equal figures give an equal SVG."""

import re
from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.growth import Curves as SizeCurves
from bench.growth import fit
from bench.report import Row

PLOTTED = ("gpus", "article")
_CASE = re.compile(r"(\d+) GPUs?, epoch (\d+)")
_WIDTH, _HEIGHT = 10.0, 3.6  # inches: three panels in a row, as wide as a page of docs
# {accelerators: {system: {epoch: images/s}}}
Curves = dict[int, dict[str, dict[int, float]]]


def curves(rows: Iterable[Row]) -> Curves:
    """Return the data of the plot from the rows of one of these workloads. Pure."""
    found: Curves = {}
    for row in rows:
        case = _CASE.fullmatch(row.case)
        if row.workload in PLOTTED and case is not None:
            panel = found.setdefault(int(case[1]), {})
            panel.setdefault(row.system, {})[int(case[2])] = row.median
    return found


def draw(found: Curves, file: Path) -> None:
    """Write the picture; make its folder."""
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    panels = figure.subplots(1, len(found), sharex=True, squeeze=False)[0]
    for panel, (count, systems) in zip(panels, sorted(found.items()), strict=True):
        for system, epochs in systems.items():
            style = {"linestyle": "--", "color": "black"} if system == "native" else {"marker": "o"}
            panel.plot(list(epochs), list(epochs.values()), label=system, **style)
        panel.set_title(f"{count} simulated GPU{'s' if count > 1 else ''}")
        panel.set_xlabel("epoch")
        panel.set_xticks(sorted({epoch for epochs in systems.values() for epoch in epochs}))
        panel.set_ylim(bottom=0)
    panels[0].set_ylabel("images/s")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    _write(figure, file)


def draw_sizes(found: SizeCurves, file: Path) -> None:
    """Write the plot of figures that grow with the number of nodes, both on logarithmic scales. Make its folder."""
    figure = Figure(figsize=(_WIDTH, _HEIGHT * 2), layout="constrained")
    panels = figure.subplots(2, -(-len(found) // 2), squeeze=False).flatten()
    for panel, (name, points) in zip(panels, sorted(found.items()), strict=False):
        sizes = sorted(points)
        panel.loglog(sizes, [points[size] for size in sizes], marker="o")
        if (law := fit(points)) is not None:
            panel.loglog(sizes, [law.at(size) for size in sizes], linestyle="--", color="black")
            panel.set_title(f"exponent {law.exponent:.2f}")
        panel.set_xlabel("nodes")
        panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
        panel.minorticks_off()
        panel.set_ylabel(name)
    for panel in panels[len(found) :]:
        panel.remove()
    _write(figure, file)


def _write(figure: Figure, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # With a date or a random salt, every run would give a different file.
    with mpl.rc_context({"svg.hashsalt": "stoker", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None})

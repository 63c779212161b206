"""The command `stoker tuning replay`: phases, epochs and patterns of a recorded trace."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click

from stoker_cli.output import OUTPUT, console, print_json, refusals
from stoker_cli.render import table
from stoker_cli.tuning.replay import Moment, Replay, ReplayVerdict, replay, verdicts
from stoker_cli.tuning.trace import read_trace
from stoker_tuning.training.model_reads import ModelFileHistory
from stoker_tuning.training.patterns import WINDOW

_COLUMNS = ("TIME", "WORKLOAD", "PHASE", "SURE", "EPOCH", "PROGRESS", "PATTERN", "SURE", "ITEMS/S", "READERS")


@click.command(name="replay")
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--window", default=WINDOW, show_default=True, type=click.IntRange(8, 10_000), help="Accesses per window."
)
@OUTPUT
def replay_command(trace: Path, window: int, output: str) -> None:
    """Show each change of phase, epoch and pattern in a TRACE of accesses.

    If the trace has the log of the training code, shows the accuracy.
    """
    with refusals():
        played = replay(read_trace(trace), window)
    judged = verdicts(played)
    if output == "json":
        print_json(as_json(played, judged))
    else:
        _show(played, judged)


def _show(played: Replay, judged: Mapping[str, ReplayVerdict]) -> None:
    out = console()
    out.print(table(_COLUMNS, (_row(moment) for moment in played.moments)))
    for moment in played.moments:
        if moment.ended:
            out.print(_splits(moment))
            for name, used in moment.view.model_files.items():
                out.print(_model_file(name, used))
    for name, verdict in judged.items():
        out.print(_sentence(name, verdict))


def _row(moment: Moment) -> tuple[str, ...]:
    view = moment.view
    error = f" ± {100 * view.epoch.error:.0f}" if view.epoch.error else ""
    return (
        f"{moment.seconds:.2f}",
        moment.workload,
        f"{view.phase.phase}{' (ended)' if moment.ended else ''}",
        f"{100 * view.phase.confidence:.0f} %",
        str(view.epoch.number),
        f"{100 * view.epoch.progress:.0f}{error} %",
        str(view.pattern.pattern),
        f"{100 * view.pattern.confidence:.0f} %",
        f"{view.rates.items_per_second:.1f}",
        str(view.readers),
    )


def _splits(moment: Moment) -> str:
    splits = ", ".join(f"{split} {files} files ({source})" for split, source, files in moment.view.splits)
    batches = moment.view.rates
    pace = f"; batches of {batches.batch_items} every {batches.batch_seconds:.2f} s" if batches.batch_items else ""
    return f"{moment.workload}: {splits or 'no data'}{pace}"


def _model_file(name: str, used: ModelFileHistory) -> str:
    epoch = f" of epoch {used.epoch}" if used.epoch is not None else ""
    return f"  {name}: {used.kind}{epoch}, loaded {used.loads} times, saved {used.saves} times"


def _sentence(name: str, verdict: ReplayVerdict) -> str:
    return (
        f"{name}: phase right {100 * verdict.phases:.1f} % of the time, epoch {100 * verdict.epochs:.1f} %; "
        f"{len(verdict.delays)} changes noticed within {verdict.longest_delay:.2f} s, {verdict.missed} missed"
    )


def as_json(played: Replay, judged: Mapping[str, ReplayVerdict]) -> dict[str, object]:
    """Return the replay as JSON, with times in seconds and shares from 0 to 1."""
    return {
        "moments": [_moment(moment) for moment in played.moments],
        "truth": {
            name: {
                "phases": verdict.phases,
                "epochs": verdict.epochs,
                "longestDelaySeconds": verdict.longest_delay,
                "missed": verdict.missed,
            }
            for name, verdict in judged.items()
        },
    }


def _moment(moment: Moment) -> dict[str, object]:
    view = moment.view
    return {
        "seconds": moment.seconds,
        "workload": moment.workload,
        "ended": moment.ended,
        "phase": {"name": view.phase.phase, "confidence": view.phase.confidence, "since": view.phase.since},
        "epoch": {
            "number": view.epoch.number,
            "progress": view.epoch.progress,
            "error": view.epoch.error,
            "method": view.epoch.method,
            "source": view.epoch_source,
        },
        "pattern": asdict(view.pattern),
        "splits": [{"split": split, "source": source, "files": files} for split, source, files in view.splits],
        "itemsPerSecond": view.rates.items_per_second,
        "batchSeconds": view.rates.batch_seconds,
        "batchItems": view.rates.batch_items,
        "longestGapSeconds": view.rates.longest_gap,
        "readers": view.readers,
        "ranks": view.ranks,
        "accesses": view.accesses,
        "modelFiles": {
            name: {
                "kind": used.kind,
                "epoch": used.epoch,
                "loads": used.loads,
                "saves": used.saves,
                "loadsAnHour": used.loads_an_hour,
                "savesAnHour": used.saves_an_hour,
            }
            for name, used in view.model_files.items()
        },
    }

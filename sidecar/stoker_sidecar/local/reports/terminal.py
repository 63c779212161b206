"""Output of the command: progress as a bar, plain lines or JSON, and a hint about the order of reads."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from stoker_orders.suggestion import seeds_of, suggested_sampling
from stoker_sidecar.local.reports.report import Report, Stage, progress_event, progress_line, stage_words

if TYPE_CHECKING:
    from rich.progress import Progress

# Seconds between two lines about the same stage, so that the log of a long warm-up stays readable.
_LINE_EVERY = 10.0
_EVENT_EVERY = 1.0


class ProgressView(Protocol):
    """Shows a mount's progress to the user."""

    def show(self, report: Report) -> None:
        """Show the current progress; called repeatedly."""

    def say(self, sentence: str, report: Report) -> None:
        """Show the final message."""


class PlainOutput:
    """A ProgressView of lines: plain ones for a log, or with ``as_json`` a JSON object each for scripts."""

    def __init__(self, *, as_json: bool, out: TextIO) -> None:
        self._as_json = as_json
        self._out = out
        self._every = _EVENT_EVERY if as_json else _LINE_EVERY
        self._last: tuple[Stage | None, str] = (None, "")
        self._at = 0.0

    def show(self, report: Report) -> None:
        """Print a line at once for a new stage, else periodically, without repetitions."""
        text = json.dumps(progress_event(report)) if self._as_json else f"stoker: {progress_line(report)}"
        now = time.monotonic()
        if report.stage is self._last[0] and (text == self._last[1] or now - self._at < self._every):
            return
        self._last, self._at = (report.stage, text), now
        print(text, file=self._out, flush=True)

    def say(self, sentence: str, report: Report) -> None:
        """Print the sentence; for scripts print the last event instead."""
        print(json.dumps(progress_event(report)) if self._as_json else sentence, file=self._out, flush=True)


class ProgressBar:
    """A ProgressView of one line that is redrawn in place."""

    def __init__(self, drawn: "Progress") -> None:
        self._drawn = drawn
        self._task = drawn.add_task("starting", total=None, figures="")

    def show(self, report: Report) -> None:
        """Draw the bytes on this disk out of all bytes, once they are known."""
        row = report.row if report.stage is Stage.MOUNTED else None
        here = row.warm_paths or row if row is not None else None
        known = here is not None and here.bytes > 0
        self._drawn.update(
            self._task,
            description=stage_words(report),
            total=here.bytes if here is not None and known else None,
            completed=here.warm_bytes if here is not None and known else 0,
            figures=progress_line(report).partition(": ")[2],
        )

    def say(self, sentence: str, report: Report) -> None:
        """Print the sentence above the bar, where it stays."""
        self._drawn.console.print(sentence, highlight=False, soft_wrap=True)


@contextmanager
def progress_view(*, as_json: bool) -> Iterator[ProgressView]:
    """Yield a progress view that matches the output's destination."""
    if as_json or not sys.stderr.isatty():
        yield PlainOutput(as_json=as_json, out=sys.stdout if as_json else sys.stderr)
        return
    # Imported late, while the mount's processes start, and not at all for scripts and logs.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as drawn:
        yield ProgressBar(drawn)


def seed_hint(environment: Mapping[str, str]) -> str:
    """Return a sentence with a suggestion; empty if no variable has a seed. Pure."""
    seeds = seeds_of((), environment)
    if not seeds:
        return ""
    said = json.dumps(suggested_sampling((), seeds[0].value))
    return (
        f"{seeds[0].place} is {seeds[0].value}: if it seeds the sampler that reads this mount, Stoker can prefetch the "
        "next reads. Check the sampler and the files (docs/guides/known-orders.md), then mount with "
        f"--sampling '{said}'"
    )

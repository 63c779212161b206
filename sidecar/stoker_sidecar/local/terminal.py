"""Where progress is shown: a bar on a terminal, plain lines in a log, JSON for scripts."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from stoker_sidecar.local.report import Report, Stage, progress_event, progress_line, stage_words

if TYPE_CHECKING:
    from rich.progress import Progress

# Seconds between two lines about the same stage: a log of a long warm-up stays readable.
_LINE_EVERY = 10.0
_EVENT_EVERY = 1.0


class ProgressView(Protocol):
    """Shows a mount's progress to whoever started it."""

    def show(self, report: Report) -> None:
        """Show how far it is now; called again and again."""

    def say(self, sentence: str, report: Report) -> None:
        """Say the last word."""


class PlainOutput:
    """A ProgressView of lines: plain ones for a log, or, ``as_json``, a JSON object each for scripts."""

    def __init__(self, *, as_json: bool, out: TextIO) -> None:
        self._as_json = as_json
        self._out = out
        self._every = _EVENT_EVERY if as_json else _LINE_EVERY
        self._last: tuple[Stage | None, str] = (None, "")
        self._at = 0.0

    def show(self, report: Report) -> None:
        """Print a line at once for a new stage, else now and then, and nothing twice."""
        text = json.dumps(progress_event(report)) if self._as_json else f"stoker: {progress_line(report)}"
        now = time.monotonic()
        if report.stage is self._last[0] and (text == self._last[1] or now - self._at < self._every):
            return
        self._last, self._at = (report.stage, text), now
        print(text, file=self._out, flush=True)

    def say(self, sentence: str, report: Report) -> None:
        """Print the sentence; for scripts the last event in its place."""
        print(json.dumps(progress_event(report)) if self._as_json else sentence, file=self._out, flush=True)


class ProgressBar:
    """A ProgressView of one line that is drawn anew in place."""

    def __init__(self, drawn: "Progress") -> None:
        self._drawn = drawn
        self._task = drawn.add_task("starting", total=None, figures="")

    def show(self, report: Report) -> None:
        """Draw bytes on this disk of all, once they are known."""
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
    """Show progress, while inside, in the way that fits where the output goes."""
    if as_json or not sys.stderr.isatty():
        yield PlainOutput(as_json=as_json, out=sys.stdout if as_json else sys.stderr)
        return
    # Late: while the processes of the mount start, and not for scripts and logs at all.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as drawn:
        yield ProgressBar(drawn)

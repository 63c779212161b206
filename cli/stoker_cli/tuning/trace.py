"""Traces of accesses and reports: JSON lines, plain or gzipped.

The first line has ``trace`` (stoker.dev/trace/v1), ``files`` (pairs of path and size, in the manifest's order), and
optionally ``opens`` (true: only opens were seen) and ``sampling``: ``method`` (complete, files, time), ``share``, and
for time ``cycle``, the seconds from one watched period to the next.

Each other line has ``t`` (seconds), ``w`` (the workload, default "workload"), and one of:

- ``f``, ``o``, ``n``, ``r``, ``by``: an access: file number from 0, offset, length (0: an open), process, and fuse or
  fanotify.
- ``model``, ``did``, and ``kind`` or ``head``: a model file was loaded, is saving, or was saved. ``head`` is its first
  bytes in base64.
- ``says``: a report with ``phase``, ``epoch`` (from 0), or ``ranks``.
- ``mounted`` or ``ended``: true.
- ``truth``: the real ``phase`` (null: ended) and ``epoch`` from then on.
"""

import gzip
import json
import zlib
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from stoker_cli.errors import CliError
from stoker_tuning.model_files.recognition import recognise
from stoker_tuning.training.accesses import (
    AccessSampling,
    ModelFileAction,
    ModelFileUse,
    SamplingMethod,
    SeenAccess,
    SelfReport,
)
from stoker_tuning.training.layout import DatasetLayout, FileFact, make_layout
from stoker_tuning.vocabulary import AccessSource, ModelFileKind, TrainingPhase

FORMAT = "stoker.dev/trace/v1"
_GZIP = b"\x1f\x8b"
_DEFAULT = "workload"


@dataclass(frozen=True)
class Truth:
    """The real phase and epoch from ``seconds`` on, from the training code. A phase of None: it has ended."""

    seconds: float
    phase: TrainingPhase | None
    epoch: int | None = None


@dataclass(frozen=True)
class Mounted:
    """The data is mounted in the pod of a workload."""

    seconds: float


@dataclass(frozen=True)
class Ended:
    """A workload has ended."""

    seconds: float


TraceEvent = SeenAccess | ModelFileUse | SelfReport | Truth | Mounted | Ended


@dataclass(frozen=True)
class Trace:
    """The files, the sampling of accesses, and the events as (workload, event) in order of time."""

    layout: DatasetLayout
    sampling: AccessSampling
    events: Iterable[tuple[str, TraceEvent]]


def read_trace(path: Path) -> Trace:
    """Read a trace. Raises CliError with the line number for an invalid trace."""
    try:
        lines = iter(_lines(path))
        head = next(lines, None)
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise CliError(f"Cannot read {path}: {error}") from error
    return parse_trace(chain([head] if head is not None else [], lines), str(path))


def _lines(path: Path) -> list[str]:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if raw.startswith(_GZIP) else raw).decode("utf-8").splitlines()


def parse_trace(lines: Iterable[str], name: str) -> Trace:
    """Parse the header now and the events lazily. Raises CliError with the line number."""
    rest = iter(lines)
    header = _parsed(next(rest, ""), _header, name, 1)
    layout, sampling = header
    return Trace(layout, sampling, _events(rest, name))


def _events(lines: Iterator[str], name: str) -> Iterator[tuple[str, TraceEvent]]:
    for number, line in enumerate(lines, start=2):
        if line.strip():
            yield _parsed(line, event_of, name, number)


def _parsed(line: str, parse: Any, name: str, number: int) -> Any:
    """Parse a line. Errors become CliError with the line number."""
    try:
        value = json.loads(line)
        if not isinstance(value, dict):
            raise TypeError("not a JSON object")
        return parse(value)
    except KeyError as error:
        raise CliError(f"{name}, line {number}: {error} is missing") from error
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise CliError(f"{name}, line {number}: {error}") from error


def _header(value: Mapping[str, Any]) -> tuple[DatasetLayout, AccessSampling]:
    if value.get("trace") != FORMAT:
        raise ValueError(f'the first line must be an object with "trace": "{FORMAT}"')
    files = (FileFact(number, str(path), int(size)) for number, (path, size) in enumerate(value["files"]))
    sampling = _object(value, "sampling")
    method = SamplingMethod(sampling.get("method", SamplingMethod.COMPLETE))
    return make_layout(files, by_chunk=not value.get("opens")), AccessSampling(
        method, float(sampling.get("share", 1.0)), float(sampling.get("cycle", 0.0))
    )


def event_of(value: Mapping[str, Any]) -> tuple[str, TraceEvent]:
    """Return the workload and the event of a line. Raises KeyError, ValueError or TypeError."""
    return str(value.get("w", _DEFAULT)), _event(float(value["t"]), value)


def _event(seconds: float, value: Mapping[str, Any]) -> TraceEvent:
    if "f" in value:
        source = AccessSource(value.get("by", AccessSource.FUSE))
        numbers = (int(value["f"]), int(value.get("o", 0)), int(value.get("n", 0)), int(value.get("r", 0)))
        return SeenAccess(seconds, *numbers, source)
    if "says" in value:
        report = _object(value, "says")
        phase = TrainingPhase(report["phase"]) if report.get("phase") else None
        return SelfReport(seconds, phase, report.get("epoch"), report.get("ranks"))
    if "model" in value:
        return ModelFileUse(seconds, str(value["model"]), _kind(value), ModelFileAction(value["did"]))
    if "truth" in value:
        truth = _object(value, "truth")
        return Truth(seconds, TrainingPhase(truth["phase"]) if truth["phase"] else None, truth.get("epoch"))
    if value.get("mounted"):
        return Mounted(seconds)
    if value.get("ended"):
        return Ended(seconds)
    raise ValueError("it needs one of f (an access), says, model, truth, mounted, ended")


def _object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    item = value.get(name, {})
    if not isinstance(item, Mapping):
        raise TypeError(f"{name} must be an object")
    return item


def _kind(value: Mapping[str, Any]) -> ModelFileKind:
    """Return the kind in the line, or the kind recognized from name and first bytes of the file."""
    if "kind" in value:
        return ModelFileKind(value["kind"])
    try:
        head = b64decode(value.get("head", ""), validate=True)
    except Base64Error as error:
        raise ValueError(f"head is not base64: {error}") from error
    return recognise(str(value["model"]), head).kind

"""Traces of accesses and reports, as docs/TRAINING-AWARENESS.md describes them: JSON lines, plain or gzipped."""

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
    """What the training code says that it did from ``seconds`` on; a phase of None: it has ended."""

    seconds: float
    phase: TrainingPhase | None
    epoch: int | None = None


@dataclass(frozen=True)
class Mounted:
    """A workload's pod has got the data."""

    seconds: float


@dataclass(frozen=True)
class Ended:
    """A workload is no more."""

    seconds: float


TraceEvent = SeenAccess | ModelFileUse | SelfReport | Truth | Mounted | Ended


@dataclass(frozen=True)
class Trace:
    """The files that were read, how much was seen, and what happened: (workload, event) in the order of time."""

    layout: DatasetLayout
    sampling: AccessSampling
    events: Iterable[tuple[str, TraceEvent]]


def read_trace(path: Path) -> Trace:
    """Read a trace. Raises CliError with the line for what is none."""
    try:
        lines = iter(_lines(path))
        head = next(lines, None)
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise CliError(f"{path} cannot be read: {error}") from error
    return parse_trace(chain([head] if head is not None else [], lines), str(path))


def _lines(path: Path) -> list[str]:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if raw.startswith(_GZIP) else raw).decode("utf-8").splitlines()


def parse_trace(lines: Iterable[str], name: str) -> Trace:
    """Parse the header now and the events as they are asked for. Raises CliError with the line for what is wrong."""
    rest = iter(lines)
    header = _parsed(next(rest, ""), _header, name, 1)
    layout, sampling = header
    return Trace(layout, sampling, _events(rest, name))


def _events(lines: Iterator[str], name: str) -> Iterator[tuple[str, TraceEvent]]:
    for number, line in enumerate(lines, start=2):
        if line.strip():
            yield _parsed(line, event_of, name, number)


def _parsed(line: str, parse: Any, name: str, number: int) -> Any:
    """Parse a line; what is wrong with it becomes a sentence that says where."""
    try:
        value = json.loads(line)
        if not isinstance(value, dict):
            raise TypeError("it is no JSON object")
        return parse(value)
    except KeyError as error:
        raise CliError(f"{name}, line {number}: {error} is missing") from error
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise CliError(f"{name}, line {number}: {error}") from error


def _header(value: Mapping[str, Any]) -> tuple[DatasetLayout, AccessSampling]:
    if value.get("trace") != FORMAT:
        raise ValueError(f'the first line must be an object with "trace": "{FORMAT}"')
    files = (FileFact(number, str(path), int(size)) for number, (path, size) in enumerate(value["files"]))
    told = _object(value, "sampling")
    method = SamplingMethod(told.get("method", SamplingMethod.COMPLETE))
    return make_layout(files, by_chunk=not value.get("opens")), AccessSampling(
        method, float(told.get("share", 1.0)), float(told.get("cycle", 0.0))
    )


def event_of(value: Mapping[str, Any]) -> tuple[str, TraceEvent]:
    """Return the workload and the event of a line. Raises KeyError, ValueError or TypeError for what is none."""
    return str(value.get("w", _DEFAULT)), _event(float(value["t"]), value)


def _event(seconds: float, value: Mapping[str, Any]) -> TraceEvent:
    if "f" in value:
        source = AccessSource(value.get("by", AccessSource.FUSE))
        numbers = (int(value["f"]), int(value.get("o", 0)), int(value.get("n", 0)), int(value.get("r", 0)))
        return SeenAccess(seconds, *numbers, source)
    if "says" in value:
        said = _object(value, "says")
        phase = TrainingPhase(said["phase"]) if said.get("phase") else None
        return SelfReport(seconds, phase, said.get("epoch"), said.get("ranks"))
    if "model" in value:
        return ModelFileUse(seconds, str(value["model"]), _kind(value), ModelFileAction(value["did"]))
    if "truth" in value:
        truth = _object(value, "truth")
        return Truth(seconds, TrainingPhase(truth["phase"]) if truth["phase"] else None, truth.get("epoch"))
    if value.get("mounted"):
        return Mounted(seconds)
    if value.get("ended"):
        return Ended(seconds)
    raise ValueError("it has none of f (an access), says, model, truth, mounted, ended")


def _object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name, {})
    if not isinstance(found, Mapping):
        raise TypeError(f"{name} must be an object")
    return found


def _kind(value: Mapping[str, Any]) -> ModelFileKind:
    """Return the kind that the line names, or the one that the file's first bytes and its name show."""
    if "kind" in value:
        return ModelFileKind(value["kind"])
    try:
        head = b64decode(value.get("head", ""), validate=True)
    except Base64Error as error:
        raise ValueError(f"the head is no base64: {error}") from error
    return recognise(str(value["model"]), head).kind

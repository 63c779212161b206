"""Parses one report line of a training pod (docs/guides/reports.md). Pure."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from stoker_tuning.vocabulary import ModelFileKind, Split, TrainingPhase

PROTOCOL = 1
MOST_BYTES = 4096  # of a line, which is a datagram
MOST_TEXT = 512  # characters of a path
_MOST_INTEGER = 2**53 - 1  # exact in every JSON parser
_MOST_COUNT = 1_000_000_000
_MOST_RANKS = 1_000_000
_MOST_LOSS = 1e30
_DAY = 86_400.0  # seconds between two lines of a rank, at most
_SHOWN = 60  # characters of a foreign value in a sentence
_UNKNOWN_NAMED = 3


class ReportRefusedError(ValueError):
    """A refused line; the sentence says what is wrong with it and what to do."""


@dataclass(frozen=True, slots=True)
class ReportLine:
    """The content of one line; None: not reported, so the previous value still holds.

    ``items``, ``wait_seconds`` and ``compute_seconds`` are since the rank's previous line. ``unknown``: the first names
    of unknown fields, each with a suggestion if there is a close one; these fields are ignored.
    """

    phase: TrainingPhase | None = None
    split: Split | None = None
    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    batch: int | None = None
    batch_size: int | None = None
    items: int | None = None
    loss: float | None = None
    learning_rate: float | None = None
    wait_seconds: float | None = None
    compute_seconds: float | None = None
    saved: str | None = None
    loaded: str | None = None
    kind: ModelFileKind | None = None
    rank: int = 0
    world_size: int | None = None
    framework: str | None = None
    sampling: str | None = None
    unknown: tuple[str, ...] = ()


def parse_line(line: bytes) -> ReportLine:
    """Parse one line, with or without its newline. Raises only ReportRefusedError, for any bytes."""
    if len(line) > MOST_BYTES:
        raise ReportRefusedError(f"a line has at most {MOST_BYTES} bytes, and this one is longer: send less in each")
    said = _object(line)
    version = said.pop("v", PROTOCOL)
    if isinstance(version, bool) or version != PROTOCOL:
        raise ReportRefusedError(
            f"'v' is {_shown(version)}: this node's sidecar speaks version {PROTOCOL}, so write that"
        )
    values = {name: _FIELDS[name](name, value) for name, value in said.items() if name in _FIELDS and value is not None}
    if not values:
        raise ReportRefusedError(f"a line says at least one of {', '.join(_FIELDS)}, and this one says nothing")
    if "rank" in values and values["rank"] >= values.get("world_size", _MOST_RANKS):
        raise ReportRefusedError("'rank' must be less than 'world_size': ranks begin at 0")
    return ReportLine(**values, unknown=tuple(_unknown(name) for name in said if name not in _FIELDS)[:_UNKNOWN_NAMED])


def _object(line: bytes) -> dict[str, Any]:
    try:
        said = json.loads(line.decode())
    except RecursionError as error:
        raise ReportRefusedError("a line is a flat JSON object, and this one is nested") from error
    except ValueError as error:  # not UTF-8, or not JSON
        example = '{"v": 1, "epoch": 3, "step": 1200, "loss": 0.71}'
        raise ReportRefusedError(f"a line is one JSON object in UTF-8, such as {example}") from error
    if not isinstance(said, dict):
        raise ReportRefusedError(f"a line is a JSON object, and this one is {_shown(said)}")
    return said


def _unknown(name: str) -> str:
    close = get_close_matches(name[:_SHOWN], _FIELDS, n=1)
    return f"{_shown(name)} (did you mean {close[0]!r}?)" if close else _shown(name)


def _shown(value: object) -> str:
    if isinstance(value, list | dict):  # it may be too deeply nested to print
        return "a list" if isinstance(value, list) else "an object"
    return ascii(value)[:_SHOWN]


def _wrong(name: str, value: object, wanted: str) -> ReportRefusedError:
    return ReportRefusedError(f"{name!r} is {_shown(value)}: it must be {wanted}")


def _integer(most: int, least: int = 0) -> Callable[[str, Any], int]:
    def parse(name: str, value: Any) -> int:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not whole or not least <= value <= most:
            raise _wrong(name, value, f"a whole number from {least} to {most}")
        return int(value)

    return parse


def _number(least: float, most: float, *, any_float: bool = False) -> Callable[[str, Any], float]:
    """Return a parser of numbers. ``any_float``: also accept NaN and the infinities, for a diverged loss."""

    def parse(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(name, value, "a number")
        if isinstance(value, float) and not math.isfinite(value):
            if any_float:
                return value
            raise _wrong(name, value, "a finite number")
        if not least <= value <= most:
            raise _wrong(name, value, f"a number from {least:g} to {most:g}")
        return float(value)

    return parse


def _word(words: type[StrEnum]) -> Callable[[str, Any], Any]:
    """Return a parser of the vocabulary's words, in any capitalization."""
    known = {word.value.lower(): word for word in words}

    def parse(name: str, value: Any) -> Any:
        word = known.get(value.lower()) if isinstance(value, str) else None
        if word is None:
            raise _wrong(name, value, f"one of {', '.join(words)}")
        return word

    return parse


def _text(most: int) -> Callable[[str, Any], str]:
    def parse(name: str, value: Any) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
            raise _wrong(name, value, f"a text of 1 to {most} printable characters")
        return value

    return parse


def _sampling(name: str, value: Any) -> str:
    """Parse text that is a JSON object; the code that follows the order parses its content."""
    if value == "":
        return ""
    text = _text(MOST_TEXT)(name, value)
    try:
        is_object = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise _wrong(name, value, "a JSON object as text, as the annotation stoker.dev/sampling has it")
    return text


_FIELDS: Mapping[str, Callable[[str, Any], Any]] = {
    "phase": _word(TrainingPhase),
    "split": _word(Split),
    "epoch": _integer(_MOST_COUNT),
    "epochs": _integer(_MOST_COUNT, 1),
    "step": _integer(_MOST_INTEGER),
    "batch": _integer(_MOST_INTEGER),
    "batch_size": _integer(_MOST_COUNT, 1),
    "items": _integer(_MOST_COUNT),
    "loss": _number(-_MOST_LOSS, _MOST_LOSS, any_float=True),
    "learning_rate": _number(0.0, 1e9),
    "wait_seconds": _number(0.0, _DAY),
    "compute_seconds": _number(0.0, _DAY),
    "saved": _text(MOST_TEXT),
    "loaded": _text(MOST_TEXT),
    "kind": _word(ModelFileKind),
    "rank": _integer(_MOST_RANKS - 1),
    "world_size": _integer(_MOST_RANKS, 1),
    "framework": _text(40),
    "sampling": _sampling,
}

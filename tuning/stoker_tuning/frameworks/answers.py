"""Validates the answers of plug-ins, which are hostile input from any source. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker_tuning.frameworks.interface import Hint
from stoker_tuning.vocabulary import ModelFileKind

# Plug-ins that are queried; each is a process.
MOST_PLUGINS = 32
# Bytes of an answer; rules and templates of a plug-in.
MOST_ANSWER = 256 * 1024
MOST_RULES = 64
MOST_TEMPLATES = 16
_MOST_WORDS = 200  # characters of a plug-in's text in a sentence
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,38}[a-z0-9])?")
_MOST_BATCH = 1e9


class PluginRefusedError(Exception):
    """A plug-in that is left out; the sentence has the reason."""


@dataclass(frozen=True)
class PluginAnswer:
    """The answer of a plug-in. ``confidences`` and ``kinds``: one for each file of the question.

    ``rules`` and ``templates`` are bounded in number and size, but not validated yet.
    """

    name: str
    confidences: tuple[float, ...]
    hints: Mapping[str, Hint]
    rules: tuple[Any, ...]
    templates: tuple[Any, ...]
    kinds: tuple[ModelFileKind, ...] = ()


def is_framework_name(name: str) -> bool:
    """Return True if the name is allowed for a plug-in."""
    return _NAME.fullmatch(name) is not None


def parse_names(text: str) -> tuple[str, ...]:
    """Parse comma-separated names of plug-ins, each once. Raises ValueError for an invalid name or too many names."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if not is_framework_name(name):
            raise ValueError(f"{plain_words(name)} is no name of a plug-in: lower-case letters, digits, '.', '-', '_'")
    if len(names) > MOST_PLUGINS:
        raise ValueError(f"{len(names)} plug-ins are named, and {MOST_PLUGINS} are asked at most")
    return names


def answer_object(name: str, data: bytes) -> dict[str, Any]:
    """Return the JSON object in the answer of plug-in ``name``. Raises PluginRefusedError."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PluginRefusedError("it gave no answer that can be read")
    if "failed" in found:
        raise PluginRefusedError(f"it failed: {plain_words(found['failed'])}")
    if found.get("name") != name:
        raise PluginRefusedError(f"it calls itself {plain_words(found.get('name'))}, and its entry point {name}")
    return found


def parse_answer(name: str, data: bytes, files: int) -> PluginAnswer:
    """Parse the answer of plug-in ``name`` to a question about ``files`` files. Raises PluginRefusedError."""
    found = answer_object(name, data)
    return PluginAnswer(
        name,
        _confidences(found.get("confidences"), files),
        _hints(found.get("hints")),
        _documents(found, "rules", MOST_RULES),
        _documents(found, "templates", MOST_TEMPLATES),
        _kinds(found.get("kinds"), files),
    )


def _confidences(found: Any, files: int) -> tuple[float, ...]:
    if not isinstance(found, list) or len(found) != files:
        raise PluginRefusedError(f"it was asked about {files} files, and answered otherwise")
    for one in found:
        if type(one) not in (int, float) or not 0 <= one <= 1:
            raise PluginRefusedError(f"its confidence is {plain_words(one)}, and must be a number from 0 to 1")
    return tuple(map(float, found))


def _kinds(found: Any, files: int) -> tuple[ModelFileKind, ...]:
    if not isinstance(found, list) or len(found) != files:
        raise PluginRefusedError(f"it was asked what {files} files are to a model, and answered otherwise")
    known = {kind.value: kind for kind in ModelFileKind} | {"": ModelFileKind.UNKNOWN}
    for one in found:
        if not isinstance(one, str) or one not in known:
            words = ", ".join(kind for kind in ModelFileKind if kind is not ModelFileKind.UNKNOWN)
            raise PluginRefusedError(
                f"its kind of a model file is {plain_words(one)}, and must be empty or one of {words}"
            )
    return tuple(known[one] for one in found)


def _hints(found: Any) -> dict[str, Hint]:
    if not isinstance(found, dict):
        raise PluginRefusedError("its hints are no names with values")
    for name, value in found.items():
        if name != "batch_size":
            raise PluginRefusedError(f"there is no hint {plain_words(name)}: batch_size is the one that is known")
        if type(value) not in (int, float) or not 0 < value <= _MOST_BATCH:
            raise PluginRefusedError(f"its batch_size is {plain_words(value)}, and must be a number above 0")
    return found


def _documents(found: Mapping[str, Any], kind: str, most: int) -> tuple[Any, ...]:
    items = found.get(kind)
    if not isinstance(items, list):
        raise PluginRefusedError(f"its {kind} are no list")
    if len(items) > most:
        raise PluginRefusedError(f"it has more than {most} {kind}")
    return tuple(items)


def plain_words(found: Any) -> str:
    """Return foreign text for a sentence: short, and without control characters."""
    text = found if isinstance(found, str) else repr(found)
    text = "".join(sign if sign.isprintable() else "?" for sign in text[: _MOST_WORDS + 1])
    return text if len(text) <= _MOST_WORDS else f"{text[: _MOST_WORDS - 1]}…"

"""Reads YAML and JSON into plain values, with the line and the column of each: bounded, and only data.

Scalars are those of YAML's core schema, which JSON shares: ``on`` and ``yes`` are words, not booleans. Anchors,
aliases, tags, merge keys, several documents in a file and duplicate keys are refused.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

import yaml

from stoker_tuning.documents.errors import DocumentError, Problem, quoted

MOST_BYTES = 2**20
MOST_DEPTH = 20
MOST_NODES = 50_000
_MOST_NUMBER = 40  # characters
_PLAIN = {"": None, "~": None, "null": None, "true": True, "false": False}
_TRUTH_WORDS = frozenset({"y", "n", "yes", "no", "on", "off"})
_INTEGER = re.compile(r"[-+]?[0-9]+")
# Any escape, so that an escaped backslash does not look like the begin of one; groups only for surrogate pairs.
_JSON_ESCAPE = re.compile(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|.)")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")

# libyaml if PyYAML was built with it: fifteen times as fast.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Step = str | int
Path = tuple[Step, ...]


@dataclass(frozen=True)
class Tree:
    """The values of a document, and the line and column, from 1, of each value and each key by its path.

    ``unquoted``: paths of unquoted words that YAML 1.1, and so kubectl, reads as booleans.
    """

    value: Any
    places: dict[Path, tuple[int, int]]
    unquoted: tuple[Path, ...] = ()

    def place(self, path: Path) -> tuple[int, int]:
        """Return the line and the column of a path, or of its nearest existing parent."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (1, 1))

    def problem(self, path: Path, message: str) -> Problem:
        """Return a problem at a path."""
        return Problem(*self.place(path), written_path(path), message)


def written_path(path: Path) -> str:
    """Format a path as ``spec.rules[0].id``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{quoted(step)[1:-1]}"
    return text.removeprefix(".")


def read_tree(source: bytes | str) -> Tree:
    """Read one document of YAML or JSON. Raises DocumentError."""
    text = _decoded(source)
    text = _json_as_yaml(text) if text.lstrip()[:1] in ("{", "[") else text
    reader = _Reader()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            reader.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _failed(mark, f"is not YAML or JSON: {_plain_words(error)}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise _failed(None, f"is not YAML or JSON: {quoted(str(error).splitlines()[0])[1:-1]}") from error
    if not reader.done:
        raise _failed(None, "is empty: write a document with apiVersion, kind and spec")
    return Tree(reader.value, reader.places, tuple(reader.unquoted))


def _json_as_yaml(text: str) -> str:
    """Convert the parts of JSON that YAML lacks.

    JSON allows tabs as indentation; a JSON string cannot contain them unescaped. JSON also writes characters beyond the
    basic plane as surrogate pairs.
    """
    return _JSON_ESCAPE.sub(_whole_sign, text.replace("\t", " "))


def _whole_sign(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    return rf"\U{0x10000 + ((int(match[1], 16) - 0xD800) << 10) + int(match[2], 16) - 0xDC00:08x}"


def _plain_words(error: yaml.MarkedYAMLError) -> str:
    words = ", ".join(filter(None, (error.context, error.problem)))
    return quoted(words)[1:-1]


def _decoded(source: bytes | str) -> str:
    size = len(source)
    if size > MOST_BYTES:
        raise _failed(None, f"has {size} bytes: a document has {MOST_BYTES} at most")
    if isinstance(source, str):
        text = source
    else:
        try:
            text = source.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = source.count(b"\n", 0, error.start) + 1
            raise DocumentError([Problem(line, 1, "", "is not UTF-8 text: save it as UTF-8")]) from error
    if any("\ud800" <= mark <= "\udfff" for mark in text):
        raise _failed(None, "has half a surrogate pair: save it as UTF-8")
    return text


def _failed(mark: Any, message: str) -> DocumentError:
    return DocumentError([Problem(*_place(mark), "", message)])


def _place(mark: Any) -> tuple[int, int]:
    """Return line and column, from 1, of a parser's mark; without a mark, of the document's begin."""
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)


class _Open:
    """A mapping or a list whose items are being read."""

    def __init__(self, path: Path, *, mapping: bool) -> None:
        self.path = path
        self.value: dict[str, Any] | list[Any] = {} if mapping else []
        self.key: str | None = None  # of a mapping: the key of the next value


class _Reader:
    """Builds values from the events of a parser; a stack replaces recursion."""

    def __init__(self) -> None:
        self.value: Any = None
        self.done = False
        self.places: dict[Path, tuple[int, int]] = {}
        self.unquoted: list[Path] = []
        self._stack: list[_Open] = []
        self._nodes = 0

    def take(self, event: yaml.Event) -> None:
        """Take the parser's next event. Raises DocumentError."""
        if isinstance(event, yaml.NodeEvent):
            self._refuse(event)
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._begin(event, mapping=isinstance(event, yaml.MappingStartEvent))
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._stack.pop()
        elif isinstance(event, yaml.DocumentStartEvent) and self.done:
            raise _failed(event.start_mark, "is a second document: write one document in a file")

    def _refuse(self, event: yaml.NodeEvent) -> None:
        self._nodes += 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _failed(event.start_mark, "anchors and aliases are not taken: write the value out")
        if getattr(event, "tag", None) not in (None, "!"):
            raise _failed(event.start_mark, "tags are not taken: write the value alone")
        if self._nodes > MOST_NODES:
            raise _failed(event.start_mark, f"has more than {MOST_NODES} values: write several documents")

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        inside = self._stack[-1] if self._stack else None
        if inside is not None and isinstance(inside.value, dict) and inside.key is None:
            self._key(inside, event)
            return
        plain = not event.style and event.tag != "!"
        path = self._put(event.start_mark, _resolved(event) if plain else _text(event))
        if plain and event.value.lower() in _TRUTH_WORDS:
            self.unquoted.append(path)

    def _key(self, inside: _Open, event: yaml.ScalarEvent) -> None:
        key = _text(event)
        if key in inside.value:
            raise _failed(event.start_mark, f"{quoted(key)} is here twice: write it once")
        inside.key = key
        self.places[(*inside.path, key)] = _place(event.start_mark)

    def _begin(self, event: yaml.NodeEvent, *, mapping: bool) -> None:
        if self._stack and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None:
            raise _failed(event.start_mark, "a key is a word, not a list or a mapping")
        if len(self._stack) >= MOST_DEPTH:
            raise _failed(event.start_mark, f"is more than {MOST_DEPTH} levels deep: write it flatter")
        opened = _Open((), mapping=mapping)
        opened.path = self._put(event.start_mark, opened.value)
        self._stack.append(opened)

    def _put(self, mark: Any, value: Any) -> Path:
        """Store a value in its parent; return its path."""
        place = _place(mark)
        if not self._stack:
            self.value, self.done = value, True
            self.places[()] = place
            return ()
        inside = self._stack[-1]
        if isinstance(inside.value, list):
            path: Path = (*inside.path, len(inside.value))
            inside.value.append(value)
            self.places[path] = place
        else:
            path = (*inside.path, str(inside.key))
            inside.value[str(inside.key)] = value
            inside.key = None
        return path


def _text(event: yaml.ScalarEvent) -> str:
    """Return a scalar's text. Raises DocumentError for half a surrogate pair, which libyaml refuses itself."""
    text = str(event.value)
    if any("\ud800" <= mark <= "\udfff" for mark in text):
        raise _failed(event.start_mark, "has half a surrogate pair: write the whole sign")
    return text


def _resolved(event: yaml.ScalarEvent) -> Any:
    """Return the value of a plain scalar."""
    text = str(event.value)
    if text in _PLAIN:
        return _PLAIN[text]
    if len(text) > _MOST_NUMBER or not text.isascii() or not _NUMBER.fullmatch(text):
        return _text(event)
    number = int(text) if _INTEGER.fullmatch(text) else float(text)
    if not math.isfinite(number):
        raise _failed(event.start_mark, f"{quoted(text)} is too large a number")
    return number

"""Reads a file of YAML or JSON documents as kubectl does, with the line and column of each value.

YAML 1.1: an unquoted ``Off`` is a boolean. Anchors and merge keys are resolved.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml

from stoker_tuning.documents.errors import DocumentError, Problem, quoted
from stoker_tuning.documents.tree import Path, Tree

MOST_BYTES: Final = 4 * 2**20  # of a file
_MOST_VALUES = 200_000  # of a file, after aliases are resolved
_MOST_DEPTH = 100
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_TAGS = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:binary", "tag:yaml.org,2002:value")


def read_trees(source: bytes) -> list[Tree]:
    """Return the documents of a file, without empty ones. Raises DocumentError."""
    if len(source) > MOST_BYTES:
        raise _failed(f"has {len(source)} bytes, and {MOST_BYTES} are allowed: split the file")
    try:
        text = source.decode("utf-8-sig")
        nodes = list(yaml.compose_all(text, Loader=_LOADER))
        return [tree for node in nodes if (tree := _Builder().tree(node)).value is not None]
    except UnicodeDecodeError as error:
        raise _failed("is not UTF-8 text: save it as UTF-8", source.count(b"\n", 0, error.start) + 1) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = ", ".join(filter(None, (error.context, error.problem)))
        place = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise _failed(f"is not YAML or JSON: {quoted(words)[1:-1]}", *place) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _failed(f"is not YAML or JSON: {quoted(error)[1:-1]}") from error


def _failed(message: str, line: int = 1, column: int = 1) -> DocumentError:
    return DocumentError([Problem(line, column, "", message)])


class _Builder:
    """Builds the plain values of one document, and their places."""

    def __init__(self) -> None:
        self._places: dict[Path, tuple[int, int]] = {}
        self._loader: Final = yaml.SafeLoader("")
        self._values = 0

    def tree(self, node: yaml.Node | None) -> Tree:
        """Return the document below ``node``. Raises DocumentError."""
        return Tree(None if node is None else self._value(node, ()), self._places)

    def _value(self, node: yaml.Node, path: Path) -> Any:
        self._values += 1
        if self._values > _MOST_VALUES or len(path) > _MOST_DEPTH:
            raise _failed("has too many values, or too many levels", *_place(node))
        self._places.setdefault(path, _place(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(child, (*path, number)) for number, child in enumerate(node.value)]
        return node.value if node.tag in _TEXT_TAGS else self._loader.construct_object(node)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        own = {key.value for key, _ in _pairs(node.value)}
        if len(own) < len(_pairs(node.value)):
            twice = next(key for number, (key, _) in enumerate(node.value) if key.value in _keys(node.value[:number]))
            raise _failed(f"{quoted(twice.value)} is here twice: write it once", *_place(twice))
        self._loader.flatten_mapping(node)
        out: dict[str, Any] = {}
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _failed("a key is a word, not a list or a mapping", *_place(key))
            self._places[(*path, key.value)] = _place(key)
            out[key.value] = self._value(child, (*path, key.value))
        return out


def _pairs(pairs: Sequence[Any]) -> list[Any]:
    return [pair for pair in pairs if isinstance(pair[0], yaml.ScalarNode) and pair[0].value != "<<"]


def _keys(pairs: Sequence[Any]) -> Iterator[str]:
    return (key.value for key, _ in _pairs(pairs))


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1

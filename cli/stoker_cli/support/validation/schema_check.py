"""Checks a value against the structural schema of a CRD, as the API server does. CEL rules are in ``kind_rules``.

The API server drops unknown fields silently. Here they are problems, with a suggestion.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stoker_tuning.documents.errors import Problem, quoted, suggestion
from stoker_tuning.documents.tree import Path, Tree

Schema = Mapping[str, Any]
_INT_OR_STRING = "x-kubernetes-int-or-string"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}
_WORDS: Mapping[str, str] = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping: write name: value below it",
    "array": "a list: write - before each item",
}


def schema_problems(tree: Tree, value: Any, schema: Schema, path: Path) -> Iterator[Problem]:
    """Yield the problems of ``value`` at ``path``, depth first. An absent or null optional value is none."""
    kind = str(schema.get("type", ""))
    if schema.get(_INT_OR_STRING):
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            yield tree.problem(path, f"{_shown(value)} is not a whole number or text")
    elif kind in _TYPES and not _is(value, kind):
        yield tree.problem(path, f"{_shown(value)} is not {_WORDS[kind]}{_quoting(value, kind)}")
    elif isinstance(value, dict):
        yield from _object_problems(tree, value, schema, path)
    elif isinstance(value, list):
        yield from _list_problems(tree, value, schema, path)
    else:
        yield from _scalar_problems(tree, value, schema, path)


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _quoting(value: Any, kind: str) -> str:
    return ": quote it, because YAML reads some unquoted words as true or false" if _is_word(value, kind) else ""


def _is_word(value: Any, kind: str) -> bool:
    return kind == "string" and isinstance(value, bool)


def _object_problems(tree: Tree, value: Mapping[str, Any], schema: Schema, path: Path) -> Iterator[Problem]:
    fields: Mapping[str, Schema] = schema.get("properties") or {}
    values: Schema | None = schema.get("additionalProperties")
    for name in schema.get("required") or ():
        if value.get(name) is None:
            yield tree.problem(path, f"{name} is missing: write it")
    for name, child in value.items():
        if child is None:
            continue  # as absent
        if name in fields:
            yield from schema_problems(tree, child, fields[name], (*path, name))
        elif values is not None:
            yield from schema_problems(tree, child, values, (*path, name))
        elif not schema.get(_PRESERVE):
            yield tree.problem((*path, name), unknown_field(name, list(fields)))
    if (most := schema.get("maxProperties")) is not None and len(value) > most:
        yield tree.problem(path, f"has {len(value)} entries, and {most} are allowed")


def unknown_field(name: str, known: list[str]) -> str:
    """Return the sentence about an unknown field, which the API server would drop."""
    return f"{quoted(name)} is not a field here, so it has no effect: {suggestion(name, known)}"


def _list_problems(tree: Tree, value: list[Any], schema: Schema, path: Path) -> Iterator[Problem]:
    least, most = schema.get("minItems", 0), schema.get("maxItems")
    if len(value) < least:
        yield tree.problem(path, f"has {len(value)} items, and {least} are needed")
    if most is not None and len(value) > most:
        yield tree.problem(path, f"has {len(value)} items, and {most} are allowed")
    for number, item in enumerate(value):
        yield from schema_problems(tree, item, schema.get("items") or {}, (*path, number))
        if schema.get("x-kubernetes-list-type") == "set" and item in value[:number]:
            yield tree.problem((*path, number), f"{_shown(item)} is here twice: write it once")


def _scalar_problems(tree: Tree, value: Any, schema: Schema, path: Path) -> Iterator[Problem]:
    choices = schema.get("enum")
    if choices and value not in choices:
        yield tree.problem(path, f"{_shown(value)} is not a choice here: {suggestion(value, list(map(str, choices)))}")
    elif isinstance(value, str):
        yield from _text_problems(tree, value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number_problems(tree, value, schema, path)


def _text_problems(tree: Tree, value: str, schema: Schema, path: Path) -> Iterator[Problem]:
    most, least, pattern = schema.get("maxLength"), schema.get("minLength", 0), schema.get("pattern")
    if most is not None and len(value) > most:
        yield tree.problem(path, f"has {len(value)} characters, and {most} are allowed")
    elif len(value) < least:
        yield tree.problem(path, "is empty: write a value, or leave it out")
    elif pattern is not None and re.search(pattern, value) is None:
        yield tree.problem(path, f"{_shown(value)} does not match {pattern}")


def _number_problems(tree: Tree, value: float, schema: Schema, path: Path) -> Iterator[Problem]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and value < least:
        yield tree.problem(path, f"{value} is less than {least}, which is the least")
    if most is not None and value > most:
        yield tree.problem(path, f"{value} is more than {most}, which is the most")


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    return quoted(value) if isinstance(value, str) else quoted(value)[1:-1].lower()

"""A small JSON patch applier (RFC 6902: add, remove, replace, test) for tests."""

import copy
from typing import Any


def apply_patch(document: Any, patch: Any) -> Any:
    """A changed copy of ``document``. Raises AssertionError when a test op does not hold."""
    document = copy.deepcopy(document)
    for op in patch:
        tokens = [one.replace("~1", "/").replace("~0", "~") for one in op["path"].split("/")[1:]]
        _apply(document, tokens, copy.deepcopy(op))
    return document


def _apply(document: Any, tokens: list[str], op: Any) -> None:
    parent = document
    for token in tokens[:-1]:
        parent = parent[int(token)] if isinstance(parent, list) else parent[token]
    last: Any = tokens[-1]
    if isinstance(parent, list):
        last = len(parent) if last == "-" else int(last)
    if op["op"] == "test":
        assert parent[last] == op["value"], op
    elif op["op"] == "remove":
        del parent[last]
    elif op["op"] == "add" and isinstance(parent, list):
        assert last <= len(parent)
        parent.insert(last, op["value"])
    elif op["op"] in ("add", "replace"):
        assert op["op"] == "add" or last in parent
        parent[last] = op["value"]
    else:
        raise AssertionError(f"unknown op {op}")

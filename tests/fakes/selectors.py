"""The subset of label and field selectors that Stoker and its tests use."""

import re
from collections.abc import Mapping
from typing import Any

_SET = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s+\((?P<values>[^)]*)\)$")


def matches_labels(labels: Mapping[str, str], selector: str) -> bool:
    """Return True if the labels match a selector such as ``a=b,c!=d,e,!f,g in (h,i)``."""
    return all(_one(labels, part) for part in re.split(r",(?![^(]*\))", selector) if part.strip())


def matches_fields(item: Mapping[str, Any], selector: str) -> bool:
    """Return True if an object matches ``metadata.name=x,status.phase!=Failed``. An absent field is empty."""
    for part in (part for part in selector.split(",") if part):
        found = re.match(r"^([^=!]+)(!)?==?(.*)$", part)
        assert found is not None, f"no selector: {part}"
        path, negative, value = found.groups()
        if (_field(item, path) == value) == bool(negative):
            return False
    return True


def _one(labels: Mapping[str, str], part: str) -> bool:
    part = part.strip()
    if found := _SET.match(part):
        values = [value.strip() for value in found["values"].split(",")]
        return (labels.get(found["key"]) in values) == (found["op"] == "in")
    if "!=" in part:
        key, value = part.split("!=", 1)
        return labels.get(key.strip()) != value.strip()
    if "=" in part:
        key, value = re.split(r"==?", part, maxsplit=1)
        return labels.get(key.strip()) == value.strip()
    return part[1:].strip() not in labels if part.startswith("!") else part in labels


def _field(item: Any, path: str) -> str:
    for step in path.split("."):
        item = item.get(step) if isinstance(item, dict) else None
    return "" if item is None else str(item)

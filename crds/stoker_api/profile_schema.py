"""The structural schema of a TuningProfile's spec, from the models of tuning documents.

It is wider than they are. Where the API server refuses something it can say less than the documents' own door, which
the webhook asks: so words, patterns and bounds of numbers are left to that, and unknown fields are kept for it to see.
Defaults are left out, so that the object stays the document that was written.
"""

from typing import Any

from stoker_tuning.documents.profile_models import TuningSpec

Schema = dict[str, Any]

_KEPT = ("type", "description", "maxItems", "maxLength", "required")
_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
_MOST_CONDITIONS = 20  # of a hardware profile


def profile_schema() -> Schema:
    """Return the schema of ``spec``."""
    raw = TuningSpec.model_json_schema()
    return _structural(raw, raw.get("$defs", {}))


def _structural(node: Schema, defs: dict[str, Schema]) -> Schema:
    node = _one_of(node, defs)
    out: Schema = {word: node[word] for word in _KEPT if word in node}
    if "enum" in node:
        words = ", ".join(map(str, node["enum"]))
        out["description"] = f"{out.get('description', '')} One of: {words}."
        out["maxLength"] = 63
    if "type" not in node:  # a condition's value: one of many types
        return out | {_UNKNOWN: True}
    if node["type"] == "array":
        out["items"] = _structural(node["items"], defs)
    if node["type"] == "object":
        out[_UNKNOWN] = True
        if "properties" in node:
            out["properties"] = {name: _structural(child, defs) for name, child in node["properties"].items()}
        else:
            out["maxProperties"] = _MOST_CONDITIONS
    if node["type"] == "string":
        out.setdefault("maxLength", 1024)
    return out


def _one_of(node: Schema, defs: dict[str, Schema]) -> Schema:
    """Replace a reference by what it names, and an optional value by the value; what stands beside it wins."""
    options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
    inner = options[0] if options else node
    rest = {key: value for key, value in node.items() if key not in ("anyOf", "$ref")} if options else {}
    if "$ref" in inner:
        beside = {key: value for key, value in inner.items() if key != "$ref"}
        inner = defs[inner["$ref"].rsplit("/", 1)[1]] | beside
    return inner | rest

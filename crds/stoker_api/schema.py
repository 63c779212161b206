"""CRDs from the models: pydantic's JSON schema turned into a Kubernetes structural schema.

``python -m stoker_api.schema DIR...`` writes a file for each kind, such as datasets.yaml, into each DIR.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.datasetclass import DatasetClass
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.meta import PrinterColumn, Resource
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.profiles.tuningprofile import TuningProfile

KINDS: tuple[type[Resource], ...] = (Dataset, TrainingJob, NodeCache, DatasetClass, TuningProfile)
HEADER = "# Generated from crds/stoker_api by `make crds`; do not edit.\n"
# JSON-schema words that a structural schema does not have, or that Kubernetes implies.
_DROPPED = {"title", "$defs", "const", "propertyNames"}

Schema = dict[str, Any]


def _resolve(node: Schema, defs: dict[str, Schema]) -> Schema:
    """Replace a ``$ref`` with its target. Keys next to the ``$ref``, such as a description, win."""
    if "$ref" not in node:
        return node
    target = defs[node["$ref"].rsplit("/", 1)[1]]
    return {**target, **{key: value for key, value in node.items() if key != "$ref"}}


def _without_null(node: Schema) -> Schema:
    """Replace ``anyOf: [X, null]`` with X: in Kubernetes an optional field is absent, never null."""
    options = [option for option in node.get("anyOf", []) if option.get("type") != "null"]
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    if node.get("x-kubernetes-int-or-string") or not options:
        return rest
    if len(options) > 1:
        raise ValueError(f"a structural schema has no unions: {options}")
    return {**options[0], **rest}


def _default(value: Any) -> Any:
    """Replace the defaults of groups with ``{}``, so that the API server fills in the fields' defaults.

    Drop None and empty lists.
    """
    if isinstance(value, dict):
        return {}
    return value if value not in (None, []) else None


def _structural(node: Schema, defs: dict[str, Schema]) -> Schema:
    node = _resolve(_without_null(_resolve(node, defs)), defs)
    out: Schema = {key: value for key, value in node.items() if key not in _DROPPED | {"default", "properties"}}
    if "const" in node:
        out["enum"] = [node["const"]]
    if _default(node.get("default")) is not None and not (node.get("additionalProperties") and not node["default"]):
        out["default"] = _default(node["default"])
    if "properties" in node:
        out["properties"] = {name: _structural(child, defs) for name, child in node["properties"].items()}
    if "items" in node:
        out["items"] = _structural(node["items"], defs)
    if isinstance(node.get("additionalProperties"), dict):
        out["additionalProperties"] = _structural(node["additionalProperties"], defs)
    else:
        out.pop("additionalProperties", None)
    return out


def open_api_schema(kind: type[Resource]) -> Schema:
    """Return the ``openAPIV3Schema`` of one kind."""
    raw = kind.model_json_schema(by_alias=True, mode="validation")
    defs = raw.get("$defs", {})
    properties = raw["properties"]
    parts = {name: _structural(properties[name], defs) for name in ("spec", "status") if name in properties}
    # Controllers write the status. Defaults there would make a partial status look complete.
    parts.get("status", {}).pop("default", None)
    rules = {"x-kubernetes-validations": list(kind.RULES)} if kind.RULES else {}
    return {
        "type": "object",
        "description": raw["description"],
        **rules,
        "required": [name for name in raw["required"] if name != "metadata"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            **parts,
        },
    }


def _without_rules(schema: Any) -> Any:
    """Return the schema without CEL rules and defaults.

    A NodeCache repeats Datasets, whose rules the API server checked before. In an unbounded list it would price each
    rule beyond its budget and refuse the CRD. It would write out defaults for each Dataset.
    """
    if isinstance(schema, dict):
        left_out = ("x-kubernetes-validations", "default")
        return {key: _without_rules(value) for key, value in schema.items() if key not in left_out}
    return [_without_rules(item) for item in schema] if isinstance(schema, list) else schema


def _column(column: PrinterColumn) -> Schema:
    out = column.wire()
    return out if column.priority else {key: value for key, value in out.items() if key != "priority"}


def crd(kind: type[Resource]) -> Schema:
    """Build a CustomResourceDefinition. Raises ValueError if a model has no structural form."""
    schema = open_api_schema(kind)
    if not schema["required"]:
        del schema["required"]
    if kind is NodeCache:
        schema = _without_rules(schema)
    subresources: Schema = {"status": {}} if "status" in schema["properties"] else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.PLURAL}.{names.GROUP}", "labels": {"app.kubernetes.io/name": "stoker"}},
        "spec": {
            "group": names.GROUP,
            "scope": kind.SCOPE,
            "names": {
                "kind": kind.KIND,
                "listKind": f"{kind.KIND}List",
                "plural": kind.PLURAL,
                "singular": kind.KIND.lower(),
                "shortNames": list(kind.SHORT_NAMES),
                "categories": ["stoker"],
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": subresources | ({"scale": kind.SCALE} if kind.SCALE else {}),
                    "additionalPrinterColumns": [_column(column) for column in kind.COLUMNS],
                }
            ],
        },
    }


def crds() -> dict[str, Schema]:
    """Build the CRDs of all kinds, by file name."""
    return {f"{kind.PLURAL}.yaml": crd(kind) for kind in KINDS}


def render(document: Schema) -> str:
    """Return the YAML text of a generated file."""
    return HEADER + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=160)


def main(folders: list[str]) -> None:
    """Write every CRD into each of ``folders``."""
    for folder in folders:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, document in crds().items():
            (Path(folder) / name).write_text(render(document), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

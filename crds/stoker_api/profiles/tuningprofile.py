"""TuningProfile: an administrator's rules for how nodes respond to workloads."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from stoker_api import names
from stoker_api.meta import Condition, Model, PrinterColumn, Resource
from stoker_api.profiles.tuning import NodeProfile, RuleFigures
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
    if "type" not in node:  # a condition's value, which can have many types
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
    """Replace a reference with its target, and an optional value with the value. Keys next to the reference win."""
    options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
    inner = options[0] if options else node
    rest = {key: value for key, value in node.items() if key not in ("anyOf", "$ref")} if options else {}
    if "$ref" in inner:
        beside = {key: value for key, value in inner.items() if key != "$ref"}
        inner = defs[inner["$ref"].rsplit("/", 1)[1]] | beside
    return inner | rest


MOST_PROFILE_ROWS = 50  # of each list of a status
_INT64 = {"format": "int64"}


class ProfileNode(NodeProfile):
    """A node that uses a profile."""

    name: Annotated[str, Field(description="The node.")]


class TuningProfileStatus(Model):
    """The profile's state, from the operator and the nodes."""

    observed_generation: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    conditions: Annotated[
        tuple[Condition, ...],
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    accepted_generation: Annotated[
        int, Field(json_schema_extra=_INT64, description="The last valid generation, which nodes keep in force.")
    ] = 0
    default: Annotated[bool, Field(description="Whether Datasets without a profile use this one.")] = False
    rule_count: Annotated[
        int, Field(description="Number of its rules, including those of templates that it applies.")
    ] = 0
    templates: Annotated[
        tuple[str, ...], Field(description="Its templates that Datasets may name.", max_length=MOST_PROFILE_ROWS)
    ] = ()
    node_count: Annotated[
        int,
        Field(description="Number of nodes whose Datasets use it."),
    ] = 0
    nodes: Annotated[
        tuple[ProfileNode, ...],
        Field(
            description=f"{MOST_PROFILE_ROWS} of these nodes, those first where the latest spec is not in force.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()
    dataset_count: Annotated[
        int,
        Field(description="Number of Datasets that use it."),
    ] = 0
    datasets: Annotated[
        tuple[str, ...], Field(description=f"{MOST_PROFILE_ROWS} of these Datasets, namespace/name.")
    ] = ()
    rules: Annotated[
        tuple[RuleFigures, ...],
        Field(
            description=f"Statistics over all nodes of the {MOST_PROFILE_ROWS} rules that matched most often.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()


class TuningProfile(Resource):
    """Rules for how nodes respond to workloads; see docs/reference/rules.md."""

    KIND: ClassVar[str] = "TuningProfile"
    PLURAL: ClassVar[str] = names.TUNING_PROFILES_PLURAL
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("tp",)
    SCOPE: ClassVar[Literal["Namespaced", "Cluster"]] = "Cluster"
    COLUMNS: ClassVar[tuple[PrinterColumn, ...]] = (
        PrinterColumn(name="Accepted", type="string", json_path='.status.conditions[?(@.type=="Accepted")].status'),
        PrinterColumn(name="Rules", type="integer", json_path=".status.ruleCount"),
        PrinterColumn(name="Nodes", type="integer", json_path=".status.nodeCount"),
        PrinterColumn(name="Datasets", type="integer", json_path=".status.datasetCount"),
        PrinterColumn(name="Default", type="boolean", json_path=".status.default"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        PrinterColumn(
            name="Message", type="string", json_path='.status.conditions[?(@.type=="Accepted")].message', priority=1
        ),
    )

    # Stored as written: stoker_tuning.documents parses it and reports its errors.
    spec: Annotated[dict[str, Any], Field(description="What it says.", json_schema_extra=profile_schema())]
    status: TuningProfileStatus = TuningProfileStatus()

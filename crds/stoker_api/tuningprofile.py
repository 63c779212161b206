"""TuningProfile: rules by which nodes act upon what workloads do, as an administrator writes them."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from stoker_api import names
from stoker_api.meta import Condition, Model, PrinterColumn, Resource
from stoker_api.profile_schema import profile_schema
from stoker_api.tuning import NodeProfile, RuleFigures

MOST_PROFILE_ROWS = 50  # of each list of a status
_INT64 = {"format": "int64"}


class ProfileNode(NodeProfile):
    """A node where a profile is."""

    name: Annotated[str, Field(description="The node.")]


class TuningProfileStatus(Model):
    """What has become of it, as the operator reads it and the nodes report it."""

    observed_generation: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    conditions: Annotated[
        tuple[Condition, ...],
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    accepted_generation: Annotated[
        int, Field(json_schema_extra=_INT64, description="The last one that could be read; nodes keep it in force.")
    ] = 0
    default: Annotated[bool, Field(description="Whether Datasets that name no profile have this one.")] = False
    rule_count: Annotated[int, Field(description="Rules of its own, with those of templates that it puts to use.")] = 0
    templates: Annotated[
        tuple[str, ...], Field(description="Templates of its own that Datasets may name.", max_length=MOST_PROFILE_ROWS)
    ] = ()
    node_count: Annotated[int, Field(description="Nodes where Datasets have it.")] = 0
    nodes: Annotated[
        tuple[ProfileNode, ...],
        Field(
            description=f"{MOST_PROFILE_ROWS} of them, those first where what it says now is not in force.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()
    dataset_count: Annotated[int, Field(description="Datasets that have it.")] = 0
    datasets: Annotated[tuple[str, ...], Field(description=f"{MOST_PROFILE_ROWS} of them, namespace/name.")] = ()
    rules: Annotated[
        tuple[RuleFigures, ...],
        Field(
            description=f"What came of its rules on all nodes, of the {MOST_PROFILE_ROWS} that applied most often.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()


class TuningProfile(Resource):
    """Rules by which nodes act upon what workloads do: docs/RULES.md."""

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
    )

    # As it was written: stoker_tuning.documents reads it, and says what is wrong in it.
    spec: Annotated[dict[str, Any], Field(description="What it says.", json_schema_extra=profile_schema())]
    status: TuningProfileStatus = TuningProfileStatus()

"""The status of a NodeCache, which the sidecar writes."""

from typing import Annotated

from pydantic import Field

from stoker_api.datasets.cache_memory import NodeMemory
from stoker_api.datasets.dataset import MountMode
from stoker_api.datasets.origin import MOST_ORIGINS, NodeOrigin
from stoker_api.goodput import MOST_ENDED, EndedPod
from stoker_api.meta import (
    BoundedModel,
    Condition,
    Model,
    NameText,
    ShortMessage,
)
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_api.node_caches.node_hardware import NodeHardware
from stoker_api.node_caches.node_storage import MOST_FOLDERS, MOST_MOUNTS, CacheFolder, NodeMount
from stoker_api.node_caches.node_workload import MOST_WORKLOADS, NodeWorkload
from stoker_api.node_caches.peers import MOST_PEER_KEY
from stoker_api.profiles.tuning import MOST_NODE_PROFILES, MOST_TUNING_ROWS, NodeProfile, NodeRuleFigures

_INT64 = {"format": "int64"}
# One writer writes each list whole. As a map, a list would carry managed-field entries for each field of each item: a
# third of the object.
_ATOMIC = {"x-kubernetes-list-type": "atomic"}
MOST_NODE_PLUGINS = 32
MOST_NODE_DATASETS = 10_000  # rows: more than etcd's 1.5 MiB hold
_MOST_CONDITIONS, _MOST_MODES = 32, 8


class NodePlugin(Model):
    """A framework plug-in of this node, and the weight of its answers."""

    name: Annotated[str, Field(description="Name of the framework.", max_length=40)]
    package: Annotated[str, Field(description="Its package and version.", max_length=100)] = ""
    rules: Annotated[int, Field(description="Number of its rules in force here.")] = 0
    templates: Annotated[int, Field(description="Number of its templates.")] = 0
    message: Annotated[ShortMessage, Field(description="Why it is disabled. Empty: it is not.")] = ""


class NodeOrderPlugin(Model):
    """An order plug-in of this node."""

    name: Annotated[str, Field(description="Jobs name it as the sampler plugin:NAME.", max_length=40)]
    package: Annotated[str, Field(description="Its package and version.", max_length=100)] = ""
    message: Annotated[
        ShortMessage,
        Field(description="Why it is unavailable, or why its last call gave no order. Empty: no problem."),
    ] = ""


class NodeCacheStatus(BoundedModel):
    """The sidecar's report of the node's state. Bytes everywhere."""

    observed_generation: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=_MOST_CONDITIONS,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    address: Annotated[
        str, Field(description="host:port where this node serves manifests and metrics.", max_length=300)
    ] = ""
    sidecar_version: NameText = ""
    peer_key: Annotated[
        str,
        Field(
            description="Public key for the node's peer certificate: base64 of its DER form.",
            max_length=MOST_PEER_KEY,
        ),
    ] = ""
    shared_neighbours: Annotated[bool, Field(description="Its sidecar reads `spec.neighbourhoods`.")] = False
    modes: Annotated[
        tuple[MountMode, ...],
        Field(description="Mount modes that this kernel and disk allow, best first.", max_length=_MOST_MODES),
    ] = ()
    modes_message: Annotated[
        ShortMessage, Field(description="Why overlay is missing, or for which Datasets it is.")
    ] = ""
    confinement: Annotated[
        ShortMessage,
        Field(
            description="What confines the fetcher and FUSE servers to the files that they need. None, and why, if "
            "nothing does."
        ),
    ] = ""
    observer: Annotated[
        ShortMessage,
        Field(
            description="What observes reads of native and overlay mounts, with its budget. None, and why, if "
            "nothing does."
        ),
    ] = ""
    pressure: Annotated[
        ShortMessage,
        Field(description="The node's cgroups and pressure figures (PSI). None, and why, if waits are not counted."),
    ] = ""
    cpus: Annotated[
        ShortMessage,
        Field(description="CPUs of the fetcher and its workers, and any problem with the requested ones."),
    ] = ""
    plugins: Annotated[
        tuple[NodePlugin, ...],
        Field(
            description="Framework plug-ins that were called.",
            max_length=MOST_NODE_PLUGINS,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    order_plugins: Annotated[
        tuple[NodeOrderPlugin, ...],
        Field(
            description="Available order plug-ins, once the node has looked for them.",
            max_length=MOST_NODE_PLUGINS,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    hardware: Annotated[NodeHardware, Field(description="The machine's hardware, for rules.")] = NodeHardware()
    capacity_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    used_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    available_bytes: Annotated[
        int, Field(json_schema_extra=_INT64, description="Bytes left for new datasets: free space less the floor.")
    ] = 0
    capacity: NameText = ""
    used: NameText = ""
    cache_folders: Annotated[
        tuple[CacheFolder, ...],
        Field(
            json_schema_extra=_ATOMIC,
            description="The preferred one first.",
            max_length=MOST_FOLDERS,
        ),
    ] = ()
    memory: Annotated[NodeMemory, Field(description="Memory in use for `cache.memory` of Datasets.")] = NodeMemory()
    origins: Annotated[
        tuple[NodeOrigin, ...],
        Field(
            description="Buckets that it sends requests to, or that recently answered SlowDown.",
            max_length=MOST_ORIGINS,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    warming: Annotated[NameText, Field(description="Datasets warming / datasets planned.")] = ""
    dataset_count: Annotated[
        int, Field(description="Planned Datasets and those on the disk, including rows that `datasets` omits.")
    ] = 0
    datasets: Annotated[
        tuple[NodeDatasetStatus, ...], Field(max_length=MOST_NODE_DATASETS, json_schema_extra=_ATOMIC)
    ] = ()
    inventory: Annotated[
        bool,
        Field(description="`datasets` has a row for each Dataset in the cache folders, planned or not."),
    ] = False
    mounts: Annotated[
        tuple[NodeMount, ...],
        Field(
            description=f"Published and waiting volumes, {MOST_MOUNTS} at most.",
            # Only the API server enforces this: the model must read the longer list of a sidecar before this bound.
            json_schema_extra=_ATOMIC | {"maxItems": MOST_MOUNTS},
        ),
    ] = ()
    mount_count: Annotated[
        int, Field(description="Published and waiting volumes, including rows that `mounts` omits.")
    ] = 0
    left_out: Annotated[
        int,
        Field(
            description="Rows missing from all lists because the status is full. Namespaces have equal parts, so "
            "the rows belong to the namespaces with the most. Absent or 0: none.",
            json_schema_extra=_INT64,
        ),
    ] = 0
    workloads: Annotated[
        tuple[NodeWorkload, ...],
        Field(
            description="Pods' use of their Datasets, 10 at most.",
            max_length=MOST_WORKLOADS,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    workload_count: Annotated[
        int,
        Field(description="Pods with known activity, including rows that `workloads` omits."),
    ] = 0
    ended: Annotated[
        tuple[EndedPod, ...],
        Field(
            description=f"Use of Datasets by pods that ended in the last hour, {MOST_ENDED} at most.",
            max_length=MOST_ENDED,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    ended_left_out: Annotated[
        int,
        Field(
            description="Pods that newer rows displaced from `ended` before their hour was over.",
            json_schema_extra=_INT64,
        ),
    ] = 0
    tuning_profiles: Annotated[
        tuple[NodeProfile, ...],
        Field(
            description="TuningProfiles of its Datasets.",
            max_length=MOST_NODE_PROFILES,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    tuning: Annotated[
        tuple[NodeRuleFigures, ...],
        Field(
            description="Statistics of the rules that matched most often here.",
            max_length=MOST_TUNING_ROWS,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()

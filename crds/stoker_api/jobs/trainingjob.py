"""TrainingJob: workers that start together where their data is warm, with the rendezvous set up."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue

from stoker_api import names
from stoker_api.datasets.dataset import SchedulingMode
from stoker_api.goodput import UID_CHARACTERS, Goodput
from stoker_api.jobs.sampling import Sampling
from stoker_api.jobs.scratch import ScratchSize
from stoker_api.meta import Condition, Duration, Model, Name, PrinterColumn, Resource, cel_rule
from stoker_api.profiles.tuning import Tuning

_INT64 = {"format": "int64"}
_MOST_TTL = 10 * 365 * 86400  # seconds
MOST_JOB_NODES = 100  # of status.nodes
MOST_REPORTERS = 16  # of status.training
_MOST_CONTAINERS = 32  # of each list: each container repeats the rendezvous environment


# The operator writes a status at once, so these apply only to new objects. An existing object cannot change its name.
_NAME_RULES = (
    cel_rule(
        "has(self.status) || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name must be a DNS label that begins with a letter, since its Service has the same name: "
        "a-z, 0-9 and '-', no dots",
    ),
    cel_rule(
        "has(self.status) || size(self.metadata.name) + size(string(self.spec.workers - 1)) <= 62",
        "metadata.name is too long: each worker's host is named NAME-INDEX, in at most 63 characters",
    ),
)


class Framework(StrEnum):
    """The rendezvous environment for the workers."""

    PYTORCH = "pytorch"
    TENSORFLOW = "tensorflow"
    JAX = "jax"
    NONE = "none"


class JobPhase(StrEnum):
    """One word for ``kubectl get``."""

    PENDING = "Pending"
    WAITING_FOR_DATA = "WaitingForData"
    STARTING = "Starting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SUSPENDED = "Suspended"


class JobDataset(Model):
    """A Dataset and its mount path in the workers."""

    name: Annotated[Name, Field(description="Name of the Dataset.")]
    namespace: Annotated[
        str | None, Field(description="Its namespace, if another one grants access.", max_length=63)
    ] = None
    mount_path: Annotated[
        str, Field(description="Folder in the workers' containers.", pattern=r"^/[^:,]*[^:,/]$", max_length=512)
    ]
    version: Annotated[
        str,
        Field(
            description="An older version still in use, by at least 12 of its digits. Empty: the current version "
            "when the Job is created. All workers read the same version.",
            pattern=r"^([0-9a-f]{12,64})?$",
            max_length=64,
        ),
    ] = ""
    scratch: Annotated[
        ScratchSize | None,
        Field(
            description="Size of a private writable layer over the data in each worker, such as 20Gi. It is dropped "
            "with the pod. Absent: the data is read-only."
        ),
    ] = None


class JobScheduling(Model):
    """How the workers are held and released."""

    mode: Annotated[SchedulingMode, Field(description="As in Dataset.")] = SchedulingMode.PREFER
    max_wait: Annotated[
        Duration,
        Field(description="Maximum hold time of workers under Prefer. It starts when no other gate holds them."),
    ] = "30m"
    gang: Annotated[bool, Field(description="Release all workers together.")] = True


_PRESERVE: dict[str, JsonValue] = {"x-kubernetes-preserve-unknown-fields": True}


class PodTemplateSpec(Model):
    """corev1.PodSpec, passed through. Only the fields of the rules below have names here."""

    model_config = ConfigDict(json_schema_extra=_PRESERVE, extra="allow", frozen=True)
    containers: Annotated[
        tuple[Annotated[dict[str, Any], Field(json_schema_extra=_PRESERVE)], ...],
        Field(description="At least one container.", min_length=1, max_length=_MOST_CONTAINERS),
    ]


class PodTemplate(Model):
    """corev1.PodTemplateSpec, passed through. The API server checks it when the Job is created."""

    metadata: Annotated[dict[str, Any], Field(description="Labels and annotations.", json_schema_extra=_PRESERVE)] = (
        Field(default_factory=dict)
    )
    spec: Annotated[PodTemplateSpec, Field(description="The pod's spec.")]


class TrainingJobSpec(Model):
    """The owner's request. The framework is fixed; workers can change while suspended."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "self.framework == oldSelf.framework",
                    "message": "framework cannot be changed: delete the TrainingJob and make a new one",
                },
                {
                    "rule": "self.workers == oldSelf.workers || oldSelf.suspend",
                    "message": "workers can be changed only while the TrainingJob is suspended",
                },
            ]
        }
    )
    framework: Annotated[
        Framework, Field(description="pytorch, tensorflow and jax set their rendezvous environment. none sets nothing.")
    ] = Framework.NONE
    workers: Annotated[int, Field(description="Pods of the Indexed Job.", ge=1, le=1000)] = 1
    datasets: Annotated[
        tuple[JobDataset, ...],
        Field(
            description="Data that every worker mounts.",
            max_length=20,
            json_schema_extra={
                "x-kubernetes-validations": [
                    {
                        "rule": "self.all(a, self.exists_one(b, b.mountPath == a.mountPath))",
                        "message": "two datasets have the same mountPath: give each its own",
                    }
                ]
            },
        ),
    ] = ()
    scheduling: Annotated[JobScheduling, Field(description="How the workers are held and released.")] = JobScheduling()
    sampling: Annotated[
        Sampling | None, Field(description="The order of samples, if it is known. Nodes prefetch in this order.")
    ] = None
    template: Annotated[PodTemplate, Field(description="An ordinary pod template.")]
    tuning: Annotated[
        Tuning,
        Field(
            description="Overrides the tuning of its Datasets on the nodes of its workers, for Datasets of its "
            "namespace."
        ),
    ] = Tuning()
    backoff_limit: Annotated[
        int, Field(description="Retries of failed pods before the job fails.", ge=0, le=100_000)
    ] = 3
    ttl_seconds_after_finished: Annotated[
        int | None, Field(description="Seconds after which an ended job is deleted. Absent: kept.", ge=0, le=_MOST_TTL)
    ] = None
    suspend: Annotated[
        bool, Field(description="True: no pods, and running ones are ended. Kueue and users set it.")
    ] = False


class JobDatasetVersion(Model):
    """The version of a Dataset that all workers read."""

    namespace: str
    name: str
    version: Annotated[str, Field(description="Digest of the version.")]


class JobNode(Model):
    """How warm a node was when a worker was released to it."""

    name: str
    workers: int = 0
    warm_percent: Annotated[int, Field(description="Warm share of the job's datasets at release, 0-100.")] = 0


class TrainingProgress(Model):
    """The state of the training code, from reports of its workers or observation by their nodes."""

    phase: Annotated[
        str,
        Field(
            description="Initialization, Training, Validation, SaveCheckpoint ...; Done after the job has succeeded."
        ),
    ] = ""
    phase_source: Annotated[
        str, Field(description="Source of the phase: report (the workers), fuse or fanotify (observed reads).")
    ] = ""
    confidence: Annotated[
        float | None, Field(description="Confidence of an observed phase, 0 to 1, for the least certain worker.")
    ] = None
    epoch: Annotated[
        str, Field(description="The epoch that all workers have reached, counted from 0, and the number of epochs.")
    ] = ""
    current_epoch: Annotated[str, Field(description="The epoch counted from 1, as in tables: 1/90 to 90/90.")] = ""
    epoch_source: Annotated[str, Field(description="Source of the epoch, as in phaseSource.")] = ""
    stall: Annotated[str, Field(description="Share of the last minute in which training waited for data.")] = ""
    stall_source: str = ""
    step: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    items_per_second: Annotated[float | None, Field(description="Of all workers together.")] = None
    loss: str = ""
    mean_loss: Annotated[str, Field(description="Mean of the last 100 losses.")] = ""
    learning_rate: float | None = None
    checkpoint: Annotated[str, Field(description="The last saved or loaded checkpoint.")] = ""
    workers: Annotated[int, Field(description="Number of workers with known progress.")] = 0
    reporters: Annotated[
        tuple[Annotated[str, Field(max_length=UID_CHARACTERS)], ...],
        Field(
            description="Beginnings of the UIDs of some workers that reported this.",
            max_length=MOST_REPORTERS,
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()
    problem: Annotated[str, Field(description="The problem of an invalid line that a worker reported.")] = ""
    phase_since: Annotated[
        str | None,
        Field(description="Time when this phase was first seen here.", json_schema_extra={"format": "date-time"}),
    ] = None
    updated_at: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None


class TrainingJobStatus(Model):
    """The job's state, from its Job and its pods."""

    phase: JobPhase | None = None
    observed_generation: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    conditions: Annotated[
        tuple[Condition, ...],
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    replicas: Annotated[int, Field(description="Workers wanted; for the scale subresource.")] = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    workers: Annotated[str, Field(description="Ready or succeeded workers, of all workers.")] = ""
    data: Annotated[
        str, Field(description="Warm share of the data on the workers' nodes, or on the nodes chosen for them.")
    ] = ""
    datasets: Annotated[
        tuple[JobDatasetVersion, ...],
        Field(description="Versions that all workers read, including replacements. Fixed when the Job is created."),
    ] = ()
    nodes: Annotated[
        tuple[JobNode, ...],
        Field(
            description=f"Nodes in use, and how warm each was at release. Beyond {MOST_JOB_NODES}, only the coldest."
        ),
    ] = ()
    node_count: Annotated[int, Field(description="Number of nodes in use.")] = 0
    goodput: Annotated[
        Goodput | None, Field(description="How the job used its time. Absent: no pod was held or has ended.")
    ] = None
    training: Annotated[
        TrainingProgress | None, Field(description="State of the training code. Absent until it is known.")
    ] = None
    start_time: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None
    completion_time: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None


class TrainingJob(Resource):
    """A distributed training run whose workers start together where their data is warm."""

    KIND: ClassVar[str] = "TrainingJob"
    PLURAL: ClassVar[str] = names.TRAINING_JOBS_PLURAL
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("tj",)
    SCOPE: ClassVar[Literal["Namespaced", "Cluster"]] = "Namespaced"
    COLUMNS: ClassVar[tuple[PrinterColumn, ...]] = (
        PrinterColumn(name="Phase", type="string", json_path=".status.phase"),
        PrinterColumn(name="Workers", type="string", json_path=".status.workers"),
        PrinterColumn(name="Data", type="string", json_path=".status.data"),
        PrinterColumn(name="Training", type="string", json_path=".status.training.phase"),
        PrinterColumn(name="Epoch", type="string", json_path=".status.training.currentEpoch"),
        PrinterColumn(name="Stall", type="string", json_path=".status.training.stall"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        PrinterColumn(
            name="Order", type="string", json_path='.status.conditions[?(@.type=="Order")].reason', priority=1
        ),
    )
    SCALE: ClassVar[dict[str, str] | None] = {
        "specReplicasPath": ".spec.workers",
        "statusReplicasPath": ".status.replicas",
    }
    RULES: ClassVar[tuple[dict[str, JsonValue], ...]] = _NAME_RULES

    spec: TrainingJobSpec
    status: TrainingJobStatus = TrainingJobStatus()

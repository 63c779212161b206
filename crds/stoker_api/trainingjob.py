"""TrainingJob: several workers that start together where their data is warm, with the rendezvous set up."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue

from stoker_api import names
from stoker_api.dataset import SchedulingMode
from stoker_api.goodput import Goodput
from stoker_api.meta import Condition, Duration, Model, Name, PrinterColumn, Resource
from stoker_api.sampling import Sampling
from stoker_api.tuning import Tuning

_INT64 = {"format": "int64"}
_MOST_TTL = 10 * 365 * 86400  # seconds
MOST_JOB_NODES = 100  # of status.nodes
_MOST_CONTAINERS = 32  # of each list: the rendezvous environment is repeated in each


class Framework(StrEnum):
    """Whose rendezvous environment the workers get."""

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
    """A Dataset and where the workers see it."""

    name: Annotated[Name, Field(description="Name of the Dataset.")]
    namespace: Annotated[
        str | None, Field(description="Its namespace, when it is another one that grants access.", max_length=63)
    ] = None
    mount_path: Annotated[
        str, Field(description="Folder in the workers' containers.", pattern=r"^/[^:,]*[^:,/]$", max_length=512)
    ]
    version: Annotated[
        str,
        Field(
            description="An older version that is still in use, by 12 of its digits or more. Empty: the one that is "
            "current when the Job is made. All workers read the same.",
            pattern=r"^([0-9a-f]{12,64})?$",
            max_length=64,
        ),
    ] = ""


class JobScheduling(Model):
    """How the workers are held and released."""

    mode: Annotated[SchedulingMode, Field(description="As in Dataset.")] = SchedulingMode.PREFER
    max_wait: Annotated[
        Duration, Field(description="How long workers are held at most (Prefer), from when no other gate holds them.")
    ] = "30m"
    gang: Annotated[bool, Field(description="All workers are released together.")] = True


_PRESERVE: dict[str, JsonValue] = {"x-kubernetes-preserve-unknown-fields": True}


class PodTemplateSpec(Model):
    """corev1.PodSpec, passed through; only what the rules below need is named."""

    model_config = ConfigDict(json_schema_extra=_PRESERVE, extra="allow", frozen=True)
    containers: Annotated[
        tuple[Annotated[dict[str, Any], Field(json_schema_extra=_PRESERVE)], ...],
        Field(description="At least one container.", min_length=1, max_length=_MOST_CONTAINERS),
    ]


class PodTemplate(Model):
    """corev1.PodTemplateSpec, passed through; the API server checks it when the Job is made."""

    metadata: Annotated[dict[str, Any], Field(description="Labels and annotations.", json_schema_extra=_PRESERVE)] = (
        Field(default_factory=dict)
    )
    spec: Annotated[PodTemplateSpec, Field(description="The pod's spec.")]


class TrainingJobSpec(Model):
    """What its owner asks for. The framework is fixed; workers can change while suspended."""

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
        Framework, Field(description="pytorch, tensorflow and jax set their rendezvous environment; none sets none.")
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
        Sampling | None, Field(description="The order of samples, where it is known: nodes fetch ahead in it.")
    ] = None
    template: Annotated[PodTemplate, Field(description="An ordinary pod template.")]
    tuning: Annotated[
        Tuning,
        Field(
            description="In place of what its Datasets say, on the nodes of its workers; of Datasets of its namespace."
        ),
    ] = Tuning()
    backoff_limit: Annotated[
        int, Field(description="Retries of failed pods before the job fails.", ge=0, le=100_000)
    ] = 3
    ttl_seconds_after_finished: Annotated[
        int | None, Field(description="Deleted this long after it ended. Absent: kept.", ge=0, le=_MOST_TTL)
    ] = None
    suspend: Annotated[bool, Field(description="True: no pods; running ones are ended. Kueue and people use it.")] = (
        False
    )


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
    """What the training code does, as its workers report it or their nodes see it."""

    phase: Annotated[str, Field(description="Initialization, Training, Validation, SaveCheckpoint ...")] = ""
    phase_source: Annotated[
        str, Field(description="Who says it: report (the workers), fuse or fanotify (what sees their reads).")
    ] = ""
    confidence: Annotated[
        float | None, Field(description="Of a phase that reads tell, 0 to 1: that of the least sure worker.")
    ] = None
    epoch: Annotated[str, Field(description="The epoch that all workers have reached, of how many.")] = ""
    epoch_source: Annotated[str, Field(description="Who says it, as phaseSource.")] = ""
    stall: Annotated[str, Field(description="Share of the last minute in which training waited for data.")] = ""
    stall_source: str = ""
    step: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    items_per_second: Annotated[float | None, Field(description="Of all workers together.")] = None
    loss: str = ""
    mean_loss: Annotated[str, Field(description="Of the last 100.")] = ""
    learning_rate: float | None = None
    checkpoint: Annotated[str, Field(description="The last one that was saved or loaded.")] = ""
    workers: Annotated[int, Field(description="Of how many workers this is known.")] = 0
    problem: Annotated[str, Field(description="What was wrong with a line that a worker reported.")] = ""
    phase_since: Annotated[
        str | None, Field(description="When this phase was first seen here.", json_schema_extra={"format": "date-time"})
    ] = None
    updated_at: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None


class TrainingJobStatus(Model):
    """What has become of it, as its Job and its pods show."""

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
    workers: Annotated[str, Field(description="Ready / total.")] = ""
    data: Annotated[str, Field(description="Warm share of the data where the workers are, or would go.")] = ""
    datasets: Annotated[
        tuple[JobDatasetVersion, ...],
        Field(description="What all workers read, also those that replace others; settled when the Job is made."),
    ] = ()
    nodes: Annotated[
        tuple[JobNode, ...],
        Field(
            description=f"Nodes used, and how warm each was at release; of more than {MOST_JOB_NODES} the coldest ones."
        ),
    ] = ()
    node_count: Annotated[int, Field(description="Nodes used.")] = 0
    goodput: Annotated[
        Goodput | None, Field(description="What it made of its time; absent: none of its pods was held or has ended.")
    ] = None
    training: Annotated[
        TrainingProgress | None, Field(description="What the training code does; absent until that is known.")
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
        PrinterColumn(name="Epoch", type="string", json_path=".status.training.epoch"),
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

    spec: TrainingJobSpec
    status: TrainingJobStatus = TrainingJobStatus()

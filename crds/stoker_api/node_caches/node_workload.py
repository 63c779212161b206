"""A node's report of the pods that read its Datasets: rows of NodeCache.status.workloads."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from stoker_api.meta import Model
from stoker_tuning.frameworks.pod_hints import FrameworkSource

_INT64 = {"format": "int64"}
_ATOMIC = {"x-kubernetes-list-type": "atomic"}  # as in nodecache.py

MOST_WORKLOADS = 10


class EvidenceSource(StrEnum):
    """A node's source of knowledge about a workload."""

    REPORT = "report"  # the pod's report
    FUSE = "fuse"  # exact requests to the node's FUSE servers
    FANOTIFY = "fanotify"  # files opened on native and overlay mounts, sampled


class OrderSource(StrEnum):
    """The source of a pod's reading order."""

    SPEC = "Spec"
    REPORT = "Report"


# Beginnings of a node's message about an unknown order, other than too few reads: a failing order plug-in, a search for
# readers, or records of a file that it cannot see.
PLUGIN_TROUBLE, READERS_SOUGHT, RECORDS_UNSEEN = (
    "the order plug-in",
    "readers are looked for",
    "records are read unseen",
)


class StallSource(StrEnum):
    """The measurement of a workload's wait for data."""

    REPORT = "report"  # the pod's report
    CONSUMER = "consumer"  # samples of what the consumer of a loader with worker processes sleeps in
    TASK_DELAY = "taskDelay"  # the kernel's delay accounting, for the process that waited longest
    FUSE = "fuse"  # reads that a FUSE server has not answered yet
    # io.pressure of the pod's cgroup: all its tasks were idle, and at least one waited for a disk
    PRESSURE = "pressure"


class Attribution(StrEnum):
    """How reads are attributed to a pod."""

    PROCESS = "process"  # the reader's process, if the sidecar sees the node's processes
    ONLY_POD = "onlyPod"  # no other pod of the node mounts the version
    VERSION = "version"  # several pods mount it, and these figures are an equal share of their reads


_Word = Annotated[str, Field(max_length=40)]
_Text = Annotated[str, Field(max_length=256)]


class NodeWorkload(Model):
    """A pod's use of its Datasets on this node: 10 pods at most, each namespace's first ones first."""

    pod: Annotated[str, Field(description="namespace/name.", max_length=320)]
    uid: Annotated[str, Field(max_length=64)] = ""
    datasets: Annotated[
        tuple[Annotated[str, Field(max_length=320)], ...],
        Field(description="namespace/name of its mounted Datasets.", max_length=20, json_schema_extra=_ATOMIC),
    ] = ()
    source: Annotated[
        EvidenceSource,
        Field(description="report: the pod's report counts first, and its reads fill the gaps."),
    ] = EvidenceSource.REPORT
    phase: Annotated[_Word, Field(description="Training phase: Initialization, Training, Validation, ...")] = ""
    epoch: Annotated[int | None, Field(json_schema_extra=_INT64, description="The pod's epoch, counted from 0.")] = None
    epochs: Annotated[int | None, Field(json_schema_extra=_INT64, description="Epochs of the whole run.")] = None
    step: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    items_per_second: Annotated[
        float | None,
        Field(
            description="Rate in this phase, over at most a minute, for all its ranks. Opened files if it is observed."
        ),
    ] = None
    stall_percent: Annotated[
        int | None, Field(description="Recent share of the time in which it waited for data.", ge=0, le=100)
    ] = None
    stall_source: StallSource | None = None
    read_wait_percent: Annotated[
        int | None,
        Field(description="Recent share of the time in which reads of one of its processes waited.", ge=0, le=100),
    ] = None
    loss: Annotated[_Word, Field(description="The last loss.")] = ""
    mean_loss: Annotated[_Word, Field(description="Mean of the last 100 losses.")] = ""
    learning_rate: float | None = None
    checkpoint: Annotated[_Text, Field(description="The last saved or loaded checkpoint.")] = ""
    model_kind: Annotated[_Word, Field(description="Kind of the model file that it last loaded.")] = ""
    framework: _Word = ""
    framework_source: Annotated[
        FrameworkSource | None,
        Field(
            description="Source of the framework: its report, its libraries, a sign in the pod's spec, or its files."
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        Field(json_schema_extra=_INT64, description="Items of a batch, from its report or else from its spec."),
    ] = None
    gpus: Annotated[int | None, Field(description="GPUs that its spec requests. Absent: none, or unknown.")] = None
    job: Annotated[
        str, Field(description="The object that created it: a TrainingJob, JobSet, Job, ...", max_length=253)
    ] = ""
    reported_at: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None
    figures_at: Annotated[
        str | None,
        Field(description="Time of these figures. Absent: just now.", json_schema_extra={"format": "date-time"}),
    ] = None
    problem: Annotated[_Text, Field(description="The problem of an invalid line that it reported.")] = ""
    refused: Annotated[int, Field(description="Number of invalid lines.", json_schema_extra=_INT64)] = 0
    observed_by: Annotated[
        EvidenceSource | None, Field(description="How its reads are observed. Absent: no reads were seen.")
    ] = None
    attribution: Attribution | None = None
    reads: Annotated[
        int | None, Field(json_schema_extra=_INT64, description="Files opened so far, estimated from the sample.")
    ] = None
    sampled: Annotated[float | None, Field(description="Recent share of opens in the sample. 1: all.", ge=0, le=1)] = (
        None
    )
    confidence: Annotated[
        float | None,
        Field(description="Confidence of an observed phase, 0 to 1. Absent: the pod reported it.", ge=0, le=1),
    ] = None
    epoch_progress: Annotated[
        float | None,
        Field(description="Finished share of the epoch, if reads determine the epoch.", ge=0, le=1),
    ] = None
    epoch_error: Annotated[
        float | None,
        Field(description="Two standard errors of epochProgress. Absent: the pod reported the epoch.", ge=0, le=1),
    ] = None
    pattern: Annotated[_Word, Field(description="Order of its reads: sequential, shuffled, strided, ...")] = ""
    splits: Annotated[
        tuple[_Word, ...],
        Field(
            description="Known parts of its data: train, validation, test.",
            max_length=4,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    tuned: Annotated[_Text, Field(description="The last effective change for it, and its result.")] = ""
    gain_percent: Annotated[
        int | None, Field(description="Change in its items per second from that change.", ge=-100, le=1000)
    ] = None
    order: Annotated[
        _Word,
        Field(
            description="Known, Wrong or Unknown: whether it reads in the order of its sampling. Empty: it has no "
            "sampling."
        ),
    ] = ""
    order_agreement: Annotated[
        int | None, Field(description="Percent of its last 500 reads that matched the prediction.", ge=0, le=100)
    ] = None
    order_message: Annotated[_Text, Field(description="State of its order, in a sentence.")] = ""
    order_source: Annotated[
        OrderSource | None, Field(description="Source of its order: its Spec or annotation, or a Report from the pod.")
    ] = None


def epoch_from_1(epoch: int, epochs: int | None) -> str:
    """Format an epoch for people, who count from 1: ``1/4`` to ``4/4``.

    Programs count from 0 (docs/guides/reports.md). A program that counts from 1 ends at ``epochs``, not above it.
    """
    if epochs is None:
        return str(epoch + 1)
    return f"{max(min(epoch + 1, epochs), epoch)}/{epochs}"

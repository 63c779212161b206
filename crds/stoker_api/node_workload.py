"""What a node says of the pods that read its Datasets: rows of NodeCache.status.workloads."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from stoker_api.meta import Model
from stoker_tuning.frameworks.pod_hints import FrameworkSource

_INT64 = {"format": "int64"}
_ATOMIC = {"x-kubernetes-list-type": "atomic"}  # as in nodecache.py

MOST_WORKLOADS = 10


class EvidenceSource(StrEnum):
    """By what a node knows something of a workload."""

    REPORT = "report"  # the pod's own word
    FUSE = "fuse"  # exact requests to the node's FUSE servers
    FANOTIFY = "fanotify"  # files that were opened on native and overlay mounts, sampled


class OrderSource(StrEnum):
    """Who said in which order a pod reads."""

    SPEC = "Spec"
    REPORT = "Report"


# How a node's word of an order begins that is not known for another reason than that too little was read: the plug-in
# that should tell it is left out, readers are looked for, or which records of a file they read is not seen.
PLUGIN_TROUBLE, READERS_SOUGHT, RECORDS_UNSEEN = (
    "the order plug-in",
    "readers are looked for",
    "records are read unseen",
)


class StallSource(StrEnum):
    """What counted the time that a workload waits for data."""

    REPORT = "report"  # the pod's own word
    CONSUMER = "consumer"  # samples of what the consumer of a loader with worker processes sleeps in
    TASK_DELAY = "taskDelay"  # the kernel's delay accounting, of the process that waited longest
    FUSE = "fuse"  # reads that a FUSE server had not answered yet
    PRESSURE = "pressure"  # io.pressure of the pod's cgroup: nothing of it went on, and something waited for a disk


class Attribution(StrEnum):
    """How it is known that a pod is who reads."""

    PROCESS = "process"  # by the reader's process, where the sidecar sees the node's
    ONLY_POD = "onlyPod"  # no other pod of the node has the version mounted
    VERSION = "version"  # several pods have, and these figures are an equal share of what they read together


_Word = Annotated[str, Field(max_length=40)]
_Text = Annotated[str, Field(max_length=256)]


class NodeWorkload(Model):
    """What one pod of this node does with its Datasets: 10 pods at most, each namespace's first ones first."""

    pod: Annotated[str, Field(description="namespace/name.", max_length=320)]
    uid: Annotated[str, Field(max_length=64)] = ""
    datasets: Annotated[
        tuple[Annotated[str, Field(max_length=320)], ...],
        Field(description="namespace/name of what it has mounted.", max_length=20, json_schema_extra=_ATOMIC),
    ] = ()
    source: Annotated[
        EvidenceSource,
        Field(description="report: what the pod says of itself counts; its reads tell what it leaves open."),
    ] = EvidenceSource.REPORT
    phase: Annotated[_Word, Field(description="Of training: Initialization, Training, Validation, ...")] = ""
    epoch: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    epochs: Annotated[int | None, Field(json_schema_extra=_INT64, description="Of the whole run.")] = None
    step: Annotated[int | None, Field(json_schema_extra=_INT64)] = None
    items_per_second: Annotated[
        float | None, Field(description="Over the last minute, of all its ranks; files opened, where it is observed.")
    ] = None
    stall_percent: Annotated[
        int | None, Field(description="Share of the time lately in which it waited for data.", ge=0, le=100)
    ] = None
    stall_source: StallSource | None = None
    read_wait_percent: Annotated[
        int | None,
        Field(description="Share of the time lately in which reads of one of its processes waited.", ge=0, le=100),
    ] = None
    loss: Annotated[_Word, Field(description="The last one.")] = ""
    mean_loss: Annotated[_Word, Field(description="Of the last 100.")] = ""
    learning_rate: float | None = None
    checkpoint: Annotated[_Text, Field(description="The last one that it saved or loaded.")] = ""
    model_kind: Annotated[_Word, Field(description="Of the model file that it was last seen to load.")] = ""
    framework: _Word = ""
    framework_source: Annotated[
        FrameworkSource | None,
        Field(
            description="What tells the framework: its report, its libraries, a sign in the pod's spec, or its files."
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        Field(json_schema_extra=_INT64, description="Items of a batch, as it reports, else as its spec hints."),
    ] = None
    gpus: Annotated[int | None, Field(description="That its spec asks for; absent: none, or not known.")] = None
    job: Annotated[str, Field(description="What made it: a TrainingJob, JobSet, Job, ...", max_length=253)] = ""
    reported_at: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None
    problem: Annotated[_Text, Field(description="What was wrong with a line that it reported.")] = ""
    refused: Annotated[int, Field(description="Lines that did not count.", json_schema_extra=_INT64)] = 0
    observed_by: Annotated[
        EvidenceSource | None, Field(description="What sees its reads; absent: nothing has seen any.")
    ] = None
    attribution: Attribution | None = None
    reads: Annotated[
        int | None, Field(json_schema_extra=_INT64, description="Files opened so far, estimated from the sample.")
    ] = None
    sampled: Annotated[
        float | None, Field(description="Share of the opens that was seen lately; 1: all.", ge=0, le=1)
    ] = None
    confidence: Annotated[
        float | None,
        Field(description="Of the phase, where reads tell it, 0 to 1; absent: the pod's own word.", ge=0, le=1),
    ] = None
    epoch_progress: Annotated[
        float | None,
        Field(description="Share of the epoch that is behind it, where reads tell the epoch.", ge=0, le=1),
    ] = None
    epoch_error: Annotated[
        float | None,
        Field(description="Two standard errors of epochProgress; absent: the epoch is the pod's own word.", ge=0, le=1),
    ] = None
    pattern: Annotated[_Word, Field(description="In which order it reads: sequential, shuffled, strided, ...")] = ""
    splits: Annotated[
        tuple[_Word, ...],
        Field(
            description="Parts of its data that are known: train, validation, test.",
            max_length=4,
            json_schema_extra=_ATOMIC,
        ),
    ] = ()
    tuned: Annotated[
        _Text, Field(description="The last change for it that came to something, and what became of it.")
    ] = ""
    gain_percent: Annotated[
        int | None, Field(description="What that change made of its items a second.", ge=-100, le=1000)
    ] = None
    order: Annotated[
        _Word,
        Field(description="Known, Wrong or Unknown: whether it reads as its sampling says; empty: it has none."),
    ] = ""
    order_agreement: Annotated[
        int | None, Field(description="Percent of its last 500 reads that came as predicted.", ge=0, le=100)
    ] = None
    order_message: Annotated[_Text, Field(description="What is known of its order, in a sentence.")] = ""
    order_source: Annotated[
        OrderSource | None, Field(description="Who said its order: its Spec or annotation, or a Report of its own.")
    ] = None

"""What a node says of the pods that it knows something of: which ones, and how often that is worth a write. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stoker_api.node_storage import NodeMount
from stoker_api.node_workload import MOST_WORKLOADS, Attribution, EvidenceSource, NodeWorkload, StallSource
from stoker_api.times import format_time
from stoker_sidecar.agent.core.observed_training import ObservedTraining
from stoker_sidecar.agent.core.stall import Stall
from stoker_sidecar.volumes.core.publish import PublishRequest
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_tuning.frameworks.pod_hints import FrameworkSource
from stoker_tuning.reports.figures import ReportSummary, round_to

T = TypeVar("T")

_MOST_DATASETS = 20
# Seconds between two changes of what is shown. A phase or an epoch is news; figures that moved are so once a minute: a
# thousand nodes that train for weeks must not make the API server write for nothing.
NEWS_SECONDS, CALM_SECONDS = 10.0, 60.0
# What only observation tells, and what the pod's own word comes before.
_OBSERVED = ("observed_by", "attribution", "reads", "sampled", "pattern", "splits", "model_kind", "read_wait_percent")
_EITHER = ("datasets", "items_per_second", "checkpoint")


@dataclass(frozen=True, slots=True)
class PodReport:
    """What one pod said, heard at ``at``, in seconds since the epoch."""

    summary: ReportSummary
    at: float


def reported_workloads(
    volumes: Iterable[ReportVolume], mounts: Sequence[NodeMount], reports: Mapping[str, PodReport]
) -> tuple[NodeWorkload, ...]:
    """Return a row for each pod that has reported, as the kubelet names it, in the order in which the pods came."""
    named = {volume.pod_uid: volume for volume in volumes}
    said = {uid: report for uid, report in reports.items() if report.summary.lines or report.summary.refused}
    return tuple(_row(volume, mounts, said[uid]) for uid, volume in named.items() if uid in said)


def _row(volume: ReportVolume, mounts: Sequence[NodeMount], report: PodReport) -> NodeWorkload:
    said = report.summary
    datasets = (f"{row.dataset_namespace}/{row.dataset}" for row in mounts if row.pod_uid == volume.pod_uid)
    return NodeWorkload(
        pod=volume.pod_name,
        uid=volume.pod_uid,
        datasets=tuple(dict.fromkeys(datasets))[:_MOST_DATASETS],
        source=EvidenceSource.REPORT,
        phase=said.phase,
        epoch=said.epoch,
        epochs=said.epochs,
        step=said.step,
        items_per_second=said.items_per_second,
        stall_percent=said.stall_percent,
        stall_source=None if said.stall_percent is None else StallSource.REPORT,
        loss=said.loss,
        mean_loss=said.mean_loss,
        learning_rate=said.learning_rate,
        checkpoint=said.checkpoint,
        framework=said.framework,
        framework_source=FrameworkSource.REPORT if said.framework else None,
        batch_size=said.batch_size,
        reported_at=format_time(report.at - said.age) if said.lines else None,
        problem=said.problem,
        refused=said.refused,
    )


def observed_row(
    request: PublishRequest,
    *,
    source: EvidenceSource,
    attribution: Attribution | None,
    datasets: Sequence[str],
    items_per_second: float,
    reads: float,
    sampled: float,
    stall: Stall | None,
    training: ObservedTraining | None = None,
    framework: str = "",
) -> NodeWorkload:
    """Return the row of a pod, from what is seen of its reads.

    Figures are rounded to what a person would look at, so that a node writes nothing while they hardly move.
    """
    known = training or ObservedTraining()
    one_pod = attribution is not Attribution.VERSION  # epochs of several that read the same are not one's
    return NodeWorkload(
        pod=f"{request.pod_namespace}/{request.pod}",
        uid=request.pod_uid,
        datasets=tuple(datasets)[:_MOST_DATASETS],
        source=source,
        observed_by=source,
        attribution=attribution,
        items_per_second=round_to(items_per_second, 2),
        reads=round(round_to(reads, 2)),
        sampled=round(sampled, 2),
        stall_percent=round(100 * stall.share) if stall else None,
        stall_source=stall.source if stall else None,
        read_wait_percent=_percent(stall.read_wait) if stall else None,
        phase=known.phase,
        confidence=known.confidence,
        epoch=known.epoch if one_pod else None,
        epoch_progress=known.progress if one_pod else None,
        epoch_error=known.error if one_pod else None,
        pattern=known.pattern,
        splits=known.splits,
        checkpoint=known.model,
        model_kind=known.model_kind,
        framework=framework,
        framework_source=FrameworkSource.LIBRARIES if framework else None,
    )


def _percent(share: float | None) -> int | None:
    return None if share is None else round(100 * share)


def merged(reported: Iterable[NodeWorkload], observed: Iterable[NodeWorkload]) -> tuple[NodeWorkload, ...]:
    """Return a row for each pod, those that report first: its own word counts, and its reads tell what it leaves open.

    The stall has one source: the two figures are not mixed.
    """
    seen = {row.uid: row for row in observed}
    own = tuple(_filled(row, seen.pop(row.uid, None)) for row in reported)
    return own + tuple(seen.values())


def _filled(told: NodeWorkload, seen: NodeWorkload | None) -> NodeWorkload:
    if seen is None:
        return told
    values: dict[str, object] = {name: getattr(seen, name) for name in _OBSERVED}
    for name in _EITHER:
        value = getattr(told, name)
        values[name] = getattr(seen, name) if value in (None, "", ()) else value
    if not told.framework:
        values |= {"framework": seen.framework, "framework_source": seen.framework_source}
    if not told.phase:
        values |= {"phase": seen.phase, "confidence": seen.confidence}
    if told.epoch is None:
        values |= {name: getattr(seen, name) for name in ("epoch", "epoch_progress", "epoch_error")}
    if told.stall_percent is None:
        values |= {"stall_percent": seen.stall_percent, "stall_source": seen.stall_source}
    return told.model_copy(update=values)


def fair_share(rows: Iterable[NodeWorkload], most: int = MOST_WORKLOADS) -> tuple[NodeWorkload, ...]:
    """Choose ``most`` rows: each namespace's first before any namespace's second, whoever has made how many pods."""
    return chosen_fairly(rows, lambda row: row.pod.partition("/")[0], most)


def chosen_fairly(rows: Iterable[T], namespace: Callable[[T], str], most: int) -> tuple[T, ...]:
    """Choose ``most`` of what is of some namespace: each one's first before any one's second."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, int, T]] = []
    for row in rows:
        name = namespace(row)
        ranked.append((seen[name], len(ranked), row))
        seen[name] += 1
    return tuple(row for _, _, row in sorted(ranked, key=lambda entry: entry[:2])[:most])


def due_in(shown: Sequence[NodeWorkload], now: Sequence[NodeWorkload], since: float) -> float | None:
    """Return the seconds until ``now`` takes the place of what was shown ``since`` seconds ago; None: they are alike.

    Which pods there are is told at once, so that no row outlives its pod.
    """
    if tuple(shown) == tuple(now):
        return None
    if {row.uid for row in shown} != {row.uid for row in now}:
        return 0.0
    calm = [_news(row) for row in shown] == [_news(row) for row in now]
    return max(0.0, (CALM_SECONDS if calm else NEWS_SECONDS) - since)


def _news(row: NodeWorkload) -> tuple[object, ...]:
    """Return what people wait to see; the first figures count, their changes do not."""
    return (
        row.phase,
        row.epoch,
        row.epochs,
        row.datasets,
        row.checkpoint,
        row.framework,
        row.problem,
        row.stall_percent is None,
        row.items_per_second is None,
        row.observed_by,
        row.attribution,
        row.tuned,
        row.order,
    )

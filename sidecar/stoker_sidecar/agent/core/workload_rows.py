"""Workload rows of a node's status: which pods have a row, and when a change is worth a write. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stoker_api.goodput import LastReport
from stoker_api.node_caches.node_storage import NodeMount
from stoker_api.node_caches.node_workload import MOST_WORKLOADS, Attribution, EvidenceSource, NodeWorkload, StallSource
from stoker_api.times import format_time
from stoker_sidecar.agent.core.observed_training import ObservedTraining
from stoker_sidecar.agent.core.stall import Stall
from stoker_sidecar.volumes.core.publish import PublishRequest
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_tuning.frameworks.pod_hints import FrameworkSource
from stoker_tuning.reports.figures import ReportSummary, round_to

T = TypeVar("T")

_MOST_DATASETS = 20
# Seconds between two updates of the shown rows: for news, and for figures alone. A thousand nodes that train for weeks
# must not burden the API server with writes.
NEWS_SECONDS, CALM_SECONDS = 10.0, 60.0
# A change of phase or epoch is shown at once: up to this number in a row, then one per this many seconds.
MOST_PHASES, PHASE_SECONDS = 12, 5.0
# Fields that come from observation alone, and fields in which the pod's report takes precedence.
_OBSERVED = ("observed_by", "attribution", "reads", "sampled", "pattern", "splits", "model_kind", "read_wait_percent")
_EITHER = ("datasets", "items_per_second", "checkpoint")


@dataclass(frozen=True, slots=True)
class PodReport:
    """A pod's report, received at ``at``, in seconds since the epoch."""

    summary: ReportSummary
    at: float


def reported_workloads(
    volumes: Iterable[ReportVolume], mounts: Sequence[NodeMount], reports: Mapping[str, PodReport]
) -> tuple[NodeWorkload, ...]:
    """Return a row for each reporting pod, named as the kubelet names it, in the pods' order of arrival.

    A pod that ends may lose its report volume before its Datasets. Its report counts as long as it has either.
    """
    named = {volume.pod_uid: volume.pod_name for volume in volumes}
    named |= {
        row.pod_uid: f"{row.pod_namespace}/{row.pod}" for row in mounts if row.pod_uid and row.pod_uid not in named
    }
    said = {uid: report for uid, report in reports.items() if report.summary.lines or report.summary.refused}
    return tuple(_row(uid, name, mounts, said[uid]) for uid, name in named.items() if uid in said)


def _row(uid: str, pod: str, mounts: Sequence[NodeMount], report: PodReport) -> NodeWorkload:
    said = report.summary
    datasets = (f"{row.dataset_namespace}/{row.dataset}" for row in mounts if row.pod_uid == uid)
    return NodeWorkload(
        pod=pod,
        uid=uid,
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


def last_report(said: ReportSummary) -> LastReport:
    """Return the part of a pod's report that is kept after the pod ends."""
    return LastReport(
        phase=said.phase,
        epoch=said.epoch,
        epochs=said.epochs,
        step=said.step,
        loss=said.loss,
        mean_loss=said.mean_loss,
        learning_rate=said.learning_rate,
        checkpoint=said.checkpoint,
    )


def observed_row(
    request: PublishRequest,
    *,
    source: EvidenceSource,
    attribution: Attribution | None,
    datasets: Sequence[str],
    items_per_second: float | None,
    reads: float,
    sampled: float,
    stall: Stall | None,
    training: ObservedTraining | None = None,
    framework: str = "",
) -> NodeWorkload:
    """Return the row of a pod, from its observed reads.

    Figures are rounded for display, so that a node writes nothing while they hardly change.
    """
    known = training or ObservedTraining()
    one_pod = attribution is not Attribution.VERSION  # the reads of several pods show no single pod's epoch
    return NodeWorkload(
        pod=f"{request.pod_namespace}/{request.pod}",
        uid=request.pod_uid,
        datasets=tuple(datasets)[:_MOST_DATASETS],
        source=source,
        observed_by=source,
        attribution=attribution,
        items_per_second=None if items_per_second is None else round_to(items_per_second, 2),
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
    """Return a row for each pod, reporting pods first. A report takes precedence; observed reads fill its gaps.

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
    """Choose ``most`` rows: each namespace's first before any namespace's second."""
    return chosen_fairly(rows, lambda row: row.pod.partition("/")[0], most)


def chosen_fairly(rows: Iterable[T], namespace: Callable[[T], str], most: int) -> tuple[T, ...]:
    """Choose ``most`` rows: each namespace's first row before any namespace's second."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, int, T]] = []
    for row in rows:
        name = namespace(row)
        ranked.append((seen[name], len(ranked), row))
        seen[name] += 1
    return tuple(row for _, _, row in sorted(ranked, key=lambda entry: entry[:2])[:most])


@dataclass
class PhasePace:
    """Rate limit of shown phase and epoch changes: ``MOST_PHASES`` in a row, then one per ``PHASE_SECONDS``.

    All times are seconds of one clock.
    """

    _full_at: float = float("-inf")  # when all changes will be allowed again

    def due_in(self, now: float) -> float:
        """Return the seconds until the next change may be shown."""
        return max(0.0, self._full_at - now - (MOST_PHASES - 1) * PHASE_SECONDS)

    def spend(self, now: float) -> None:
        """Note that a change is shown."""
        self._full_at = max(self._full_at, now) + PHASE_SECONDS


def phases(rows: Iterable[NodeWorkload]) -> tuple[tuple[str, str, int | None], ...]:
    """Return phase and epoch of each pod."""
    return tuple((row.uid, row.phase, row.epoch) for row in rows)


def due_in(
    shown: Sequence[NodeWorkload], now: Sequence[NodeWorkload], since: float, phase_in: float = 0.0
) -> float | None:
    """Return the seconds until ``now`` replaces the rows shown ``since`` seconds ago; None if both are equal.

    A change in the set of pods is due at once, so that no row outlives its pod. ``phase_in``: seconds until a change of
    a phase may be shown.
    """
    if tuple(shown) == tuple(now):
        return None
    if {row.uid for row in shown} != {row.uid for row in now}:
        return 0.0
    if phases(shown) != phases(now):
        return phase_in
    calm = [_news(row) for row in shown] == [_news(row) for row in now]
    return max(0.0, (CALM_SECONDS if calm else NEWS_SECONDS) - since)


def _news(row: NodeWorkload) -> tuple[object, ...]:
    """Return the fields whose changes are news. A figure that appears is news; its later changes are not."""
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

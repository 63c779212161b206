"""Roll up the progress of a TrainingJob's code from the reports of its workers' nodes, at a limited rate. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from stoker_api.goodput import EndedPod, short_uid
from stoker_api.jobs.trainingjob import MOST_REPORTERS, JobPhase, TrainingProgress
from stoker_api.node_caches.node_workload import EvidenceSource, NodeWorkload, epoch_from_1
from stoker_api.times import format_time, parse_time
from stoker_operator.core.views.cluster import ClusterView, PodView

# Seconds between two changes of a status: news other than phases wait briefly, changed figures wait a minute.
NEWS_SECONDS, CALM_SECONDS = 10.0, 60.0
# With few jobs, a phase or an epoch appears within a second. With many, this many are written each second.
_PHASES_PER_SECOND = 5.0
DONE = "Done"  # phase after the job succeeded
_MOST_WORD = 40
_MOST_TEXT = 256
# Values from reports that reads may provide too, by the field with their source.
_SOURCED = {
    "phase_source": ("phase", "phase_source", "confidence"),
    "epoch_source": ("epoch", "current_epoch", "epoch_source"),
}
# Values from reports only. A missing value in a row does not withdraw it.
_REPORTED = ("step", "loss", "mean_loss", "learning_rate", "checkpoint", "problem")
_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True)
class WorkerRows:
    """The reports on a job's workers.

    ``live``: rows of their nodes. ``last``: final reports of ended pods. ``standing``: UIDs of workers without a
    replacement.
    """

    live: Sequence[NodeWorkload] = ()
    last: Sequence[NodeWorkload] = ()
    standing: Collection[str] = ()

    @property
    def all(self) -> tuple[NodeWorkload, ...]:
        """One row of each worker. A final report replaces the row of its pod."""
        ended = {row.uid for row in self.last}
        rows = (*self.last, *(row for row in self.live if row.uid not in ended))
        return tuple(sorted(rows, key=lambda row: row.pod))


def phase_seconds(jobs: int) -> float:
    """Return the seconds between two changes of phase or epoch in one status, for ``jobs`` TrainingJobs."""
    return min(NEWS_SECONDS, max(1.0, jobs / _PHASES_PER_SECOND))


def workloads_of(view: ClusterView, pods: Iterable[PodView]) -> tuple[NodeWorkload, ...]:
    """Return the rows of these pods, each from its own node only."""
    found = []
    for pod in sorted(pods, key=lambda pod: pod.name):
        cache = view.node_caches.get(pod.node)
        rows = [row for row in cache.status.workloads if row.uid == pod.uid] if cache is not None and pod.uid else []
        found += rows[:1]
    return tuple(found)


def last_reports(ended: Iterable[EndedPod], uids: Collection[str]) -> tuple[NodeWorkload, ...]:
    """Return the final reports of the pods with these UIDs, as rows."""
    return tuple(
        NodeWorkload(pod=pod.pod, uid=pod.uid, source=EvidenceSource.REPORT, **dict(pod.last))
        for pod in ended
        if pod.uid in uids and pod.last is not None
    )


def standing_workers(alive: Iterable[PodView], tries: Iterable[PodView]) -> frozenset[str]:
    """Return the UIDs of workers without a replacement, including failed ones."""
    alive = tuple(alive)
    replaced = {pod.labels.get(_COMPLETION_INDEX, "") for pod in alive}
    failed = (pod for pod in tries if pod.phase == "Failed")
    left = (pod for pod in failed if pod.labels.get(_COMPLETION_INDEX, "") not in replaced)
    return frozenset(pod.uid for pod in (*alive, *left) if pod.uid)


def training_progress(
    old: TrainingProgress | None, rows: WorkerRows, now: float, phases_in: float = NEWS_SECONDS
) -> TrainingProgress | None:
    """Return the new progress, or the old one if it is too early for a change.

    ``now``: seconds since the epoch. Without new reports, the last progress stays. ``phases_in``: from
    ``phase_seconds``.
    """
    due = progress_due_in(old, rows, now, phases_in)
    return _fresh(old, rows, now) if due is not None and due <= 0 else old


def final_progress(
    old: TrainingProgress | None, rows: WorkerRows, phase: JobPhase, now: float
) -> TrainingProgress | None:
    """Return the final progress of a job that ended in ``phase``. It ignores the limit on changes."""
    last = old
    if rows.all and progress_due_in(old, rows, now) is not None:
        last = _fresh(old, rows, now)
        last = last.model_copy(update={"workers": max(last.workers, old.workers if old is not None else 0)})
    if phase is not JobPhase.SUCCEEDED:
        return last
    known = last or TrainingProgress()
    if known.phase == DONE:
        return known
    done = {"phase": DONE, "phase_source": "", "confidence": None}
    return known.model_copy(update=done | {"phase_since": format_time(now), "updated_at": format_time(now)})


def progress_due_in(
    old: TrainingProgress | None, rows: WorkerRows, now: float, phases_in: float = NEWS_SECONDS
) -> float | None:
    """Return the seconds until the progress changes. None: no change is due."""
    if not rows.all:
        return None
    fresh = _fresh(old, rows, now)
    if old is None:
        return 0.0
    if fresh.model_copy(update={"updated_at": old.updated_at}) == old:
        return None
    if rows.last:  # a node reports it only once
        return 0.0
    pace = CALM_SECONDS if _news(fresh) == _news(old) else NEWS_SECONDS
    pace = phases_in if (fresh.phase, fresh.epoch) != (old.phase, old.epoch) else pace
    return max(0.0, parse_time(old.updated_at) + pace - now)


def _news(progress: TrainingProgress) -> tuple[object, ...]:
    """Return the parts that people wait for. The first figures count, but not their changes."""
    words = progress.phase, progress.phase_source, progress.epoch, progress.checkpoint, progress.problem
    return *words, not progress.stall


def _fresh(old: TrainingProgress | None, known: WorkerRows, now: float) -> TrainingProgress:
    fresh = _held(old, _rolled_up(known.all), known, now)
    kept = old.phase_since if old is not None and old.phase == fresh.phase else None
    return fresh.model_copy(update={"phase_since": kept or format_time(now)})


def _rolled_up(rows: Sequence[NodeWorkload]) -> TrainingProgress:
    """Return the combined progress of these rows, without times."""
    in_phase = _in_most_common_phase(_told_first([row for row in rows if row.phase], _tells_phase))
    in_epoch = _told_first([row for row in rows if row.epoch is not None], _tells_epoch)
    counted = _told_first([row for row in rows if row.items_per_second is not None], _reports)
    stalls = [row.stall_percent for row in rows if row.stall_percent is not None]
    rates = [row.items_per_second for row in counted if row.items_per_second is not None]
    speaker = next((row for row in rows if row.loss), rows[0])
    return TrainingProgress(
        phase=in_phase[0].phase[:_MOST_WORD] if in_phase else "",
        phase_source=_source(in_phase, _tells_phase),
        confidence=min((row.confidence for row in in_phase if row.confidence is not None), default=None),
        epoch=_epoch(in_epoch),
        current_epoch=_current_epoch(in_epoch),
        epoch_source=_source(in_epoch, _tells_epoch),
        stall=f"{round(sum(stalls) / len(stalls))}%" if stalls else "",
        stall_source=next((row.stall_source for row in rows if row.stall_source is not None), ""),
        step=min((row.step for row in rows if row.step is not None), default=None),
        items_per_second=float(f"{sum(rates):.3g}") if rates else None,
        loss=speaker.loss[:_MOST_WORD],
        mean_loss=speaker.mean_loss[:_MOST_WORD],
        learning_rate=speaker.learning_rate,
        checkpoint=next((row.checkpoint for row in rows if row.checkpoint), "")[:_MOST_TEXT],
        workers=len(rows),
        problem=next((row.problem for row in rows if row.problem), "")[:_MOST_TEXT],
    )


def _held(old: TrainingProgress | None, fresh: TrainingProgress, known: WorkerRows, now: float) -> TrainingProgress:
    """Keep reported values if rows lost the report, for example after volumes are unmounted."""
    standing = {short_uid(uid) for uid in known.standing}
    before = set(old.reporters) & standing if old is not None else set()
    reporting = {short_uid(row.uid) for row in known.all if row.uid and _reports(row)}
    live = any(_reports(row) for row in known.live)
    changes: dict[str, object] = {
        "reporters": tuple(sorted(before | reporting)[:MOST_REPORTERS]),
        "updated_at": format_time(now),
    }
    if old is not None and before:
        changes |= {name: getattr(old, name) for name in _lost(old, fresh, live=live)}
    return fresh.model_copy(update=changes)


def _lost(old: TrainingProgress, fresh: TrainingProgress, *, live: bool) -> list[str]:
    """Return the reported fields that no row reports now.

    ``live``: a worker still reports, so a missing figure of the last minute has ended.
    """
    lost = [name for name in _REPORTED if getattr(fresh, name) in (None, "")]
    for source, names in _SOURCED.items():
        if getattr(old, source) == EvidenceSource.REPORT != getattr(fresh, source):
            lost += names
    if live:
        return lost
    if old.stall_source == EvidenceSource.REPORT or not fresh.stall:
        lost += ["stall", "stall_source"]
    return [*lost, "items_per_second"]


def _epoch(rows: Sequence[NodeWorkload]) -> str:
    """Format the epoch that all workers reached, and the total."""
    epochs = [row.epoch for row in rows if row.epoch is not None]
    of = [row.epochs for row in rows if row.epochs is not None]
    return "" if not epochs else f"{min(epochs)}/{max(of)}" if of else str(min(epochs))


def _current_epoch(rows: Sequence[NodeWorkload]) -> str:
    """Format the same, counted from 1."""
    epochs = [row.epoch for row in rows if row.epoch is not None]
    of = max((row.epochs for row in rows if row.epochs is not None), default=None)
    return epoch_from_1(min(epochs), of) if epochs else ""


def _told_first(rows: Sequence[NodeWorkload], tells: Callable[[NodeWorkload], bool]) -> Sequence[NodeWorkload]:
    """Return the workers that report the value themselves. If none does, return all, whose reads show it."""
    return [row for row in rows if tells(row)] or rows


def _tells_phase(row: NodeWorkload) -> bool:
    return row.confidence is None


def _tells_epoch(row: NodeWorkload) -> bool:
    return row.epoch_error is None


def _reports(row: NodeWorkload) -> bool:
    return row.source is EvidenceSource.REPORT


def _source(rows: Sequence[NodeWorkload], tells: Callable[[NodeWorkload], bool]) -> str:
    """Return the source of the value: the workers' reports, or the observer of the first worker's reads."""
    if not rows:
        return ""
    return EvidenceSource.REPORT if tells(rows[0]) else rows[0].observed_by or ""


def _in_most_common_phase(rows: Sequence[NodeWorkload]) -> Sequence[NodeWorkload]:
    """Return the workers in the most common phase."""
    if not rows:
        return rows
    phase = Counter(row.phase for row in rows).most_common(1)[0][0]
    return [row for row in rows if row.phase == phase]

"""What a TrainingJob's training code does, rolled up from what the nodes of its workers say; at a calm pace. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from stoker_api.node_workload import EvidenceSource, NodeWorkload
from stoker_api.times import format_time, parse_time
from stoker_api.trainingjob import TrainingProgress
from stoker_operator.core.views import ClusterView, PodView

# Seconds between two changes of a status: a phase or an epoch is news, figures that moved are so once a minute.
NEWS_SECONDS, CALM_SECONDS = 10.0, 60.0
_MOST_WORD = 40
_MOST_TEXT = 256


def workloads_of(view: ClusterView, pods: Iterable[PodView]) -> tuple[NodeWorkload, ...]:
    """Return what is known of these pods, each by the word of its own node and no other."""
    found = []
    for pod in sorted(pods, key=lambda pod: pod.name):
        cache = view.node_caches.get(pod.node)
        rows = [row for row in cache.status.workloads if row.uid == pod.uid] if cache is not None and pod.uid else []
        found += rows[:1]
    return tuple(found)


def training_progress(
    old: TrainingProgress | None, workloads: Sequence[NodeWorkload], now: float
) -> TrainingProgress | None:
    """Return what the status says: what is new, or what it said before while it is too early for that.

    ``now`` in seconds since the epoch. Where nothing is known any more, the last that was known stays.
    """
    due = progress_due_in(old, workloads, now)
    return _fresh(old, workloads, now) if due is not None and due <= 0 else old


def progress_due_in(old: TrainingProgress | None, workloads: Sequence[NodeWorkload], now: float) -> float | None:
    """Return the seconds until the status says something else; None: it says all that is known."""
    if not workloads:
        return None
    fresh = _fresh(old, workloads, now)
    if old is None:
        return 0.0
    if fresh.model_copy(update={"updated_at": old.updated_at}) == old:
        return None
    pace = CALM_SECONDS if _news(fresh) == _news(old) else NEWS_SECONDS
    return max(0.0, parse_time(old.updated_at) + pace - now)


def _news(progress: TrainingProgress) -> tuple[object, ...]:
    """Return what people wait to see; the first figures count, their changes do not."""
    words = progress.phase, progress.phase_source, progress.epoch, progress.checkpoint, progress.problem
    return *words, not progress.stall


def _fresh(old: TrainingProgress | None, rows: Sequence[NodeWorkload], now: float) -> TrainingProgress:
    in_phase = _in_most_common_phase(_told_first([row for row in rows if row.phase], _tells_phase))
    in_epoch = _told_first([row for row in rows if row.epoch is not None], _tells_epoch)
    phase = in_phase[0].phase if in_phase else ""
    counted = _told_first([row for row in rows if row.items_per_second is not None], _reports)
    stalls = [row.stall_percent for row in rows if row.stall_percent is not None]
    rates = [row.items_per_second for row in counted if row.items_per_second is not None]
    steps = [row.step for row in rows if row.step is not None]
    speaker = next((row for row in rows if row.loss), rows[0])
    kept = old.phase_since if old is not None and old.phase == phase else None
    return TrainingProgress(
        phase=phase[:_MOST_WORD],
        phase_source=_source(in_phase, _tells_phase),
        confidence=min((row.confidence for row in in_phase if row.confidence is not None), default=None),
        epoch=_epoch(in_epoch),
        epoch_source=_source(in_epoch, _tells_epoch),
        stall=f"{round(sum(stalls) / len(stalls))}%" if stalls else "",
        stall_source=next((row.stall_source for row in rows if row.stall_source is not None), ""),
        step=min(steps, default=None),
        items_per_second=float(f"{sum(rates):.3g}") if rates else None,
        loss=speaker.loss[:_MOST_WORD],
        mean_loss=speaker.mean_loss[:_MOST_WORD],
        learning_rate=speaker.learning_rate,
        checkpoint=next((row.checkpoint for row in rows if row.checkpoint), "")[:_MOST_TEXT],
        workers=len(rows),
        problem=next((row.problem for row in rows if row.problem), "")[:_MOST_TEXT],
        phase_since=kept or format_time(now),
        updated_at=format_time(now),
    )


def _epoch(rows: Sequence[NodeWorkload]) -> str:
    """Write the epoch that all have reached, and of how many."""
    epochs = [row.epoch for row in rows if row.epoch is not None]
    of = [row.epochs for row in rows if row.epochs is not None]
    return "" if not epochs else f"{min(epochs)}/{max(of)}" if of else str(min(epochs))


def _told_first(rows: Sequence[NodeWorkload], tells: Callable[[NodeWorkload], bool]) -> Sequence[NodeWorkload]:
    """Return the workers that say it themselves; where none does, all: their reads say it."""
    return [row for row in rows if tells(row)] or rows


def _tells_phase(row: NodeWorkload) -> bool:
    return row.confidence is None


def _tells_epoch(row: NodeWorkload) -> bool:
    return row.epoch_error is None


def _reports(row: NodeWorkload) -> bool:
    return row.source is EvidenceSource.REPORT


def _source(rows: Sequence[NodeWorkload], tells: Callable[[NodeWorkload], bool]) -> str:
    """Return who says it: the workers, or what sees the reads of the first of them."""
    if not rows:
        return ""
    return EvidenceSource.REPORT if tells(rows[0]) else rows[0].observed_by or ""


def _in_most_common_phase(rows: Sequence[NodeWorkload]) -> Sequence[NodeWorkload]:
    """Return the workers of the phase that most of them are in."""
    if not rows:
        return rows
    phase = Counter(row.phase for row in rows).most_common(1)[0][0]
    return [row for row in rows if row.phase == phase]

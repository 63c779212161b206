"""What a TrainingJob says of its training: whose word counts, how workers add up, and at what pace it changes."""

from dataclasses import replace
from typing import Any

import pytest

from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import NodeCache
from stoker_api.times import format_time
from stoker_api.trainingjob import TrainingJobStatus, TrainingProgress
from stoker_operator.core.job_facts import JobFacts
from stoker_operator.core.job_status import roll_up_job
from stoker_operator.core.job_transitions import job_announcements
from stoker_operator.core.training_progress import (
    CALM_SECONDS,
    NEWS_SECONDS,
    progress_due_in,
    training_progress,
    workloads_of,
)
from stoker_operator.core.views import ClusterView
from tests.unit.stoker_operator.training import job_of, released, training_job

NOW = 1_000_000.0


def row(uid: str = "u0", **fields: Any) -> NodeWorkload:
    return NodeWorkload(pod=f"vision/{uid}", uid=uid, **{"phase": "Training", "epoch": 3} | fields)


def cache(node: str, *rows: NodeWorkload) -> NodeCache:
    return NodeCache.model_validate({"metadata": {"name": node}, "status": {"workloads": [one.wire() for one in rows]}})


def view(**caches: tuple[NodeWorkload, ...]) -> ClusterView:
    return ClusterView(node_caches={node: cache(node, *rows) for node, rows in caches.items()})


def progress(*rows: NodeWorkload) -> TrainingProgress:
    known = training_progress(None, rows, NOW)
    assert known is not None
    return known


def test_a_workers_node_speaks_for_it() -> None:
    pods = [replace(released(index, "a"), uid=f"u{index}") for index in (0, 1)]
    assert [one.uid for one in workloads_of(view(a=(row("u0"), row("u1"), row("u9"))), pods)] == ["u0", "u1"]


def test_another_node_does_not() -> None:
    assert workloads_of(view(b=(row("u0"),)), [replace(released(0, "a"), uid="u0")]) == ()


def test_nothing_is_said_until_something_is_known() -> None:
    assert training_progress(None, (), NOW) is None


def test_workers_add_up() -> None:
    known = progress(
        row("u0", epochs=90, items_per_second=100.0, stall_percent=10, stall_source="report", loss="0.7"),
        row("u1", epoch=4, epochs=90, items_per_second=120.4, stall_percent=21, phase="Validation"),
        row("u2", items_per_second=100.0),
    )
    assert (known.phase, known.epoch, known.stall, known.stall_source) == ("Training", "3/90", "16%", "report")
    assert (known.items_per_second, known.loss, known.workers) == (320.0, "0.7", 3)


def seen(uid: str = "u0", **fields: Any) -> NodeWorkload:
    """Make the row of a worker that says nothing, by its reads."""
    told = {"source": "fanotify", "observed_by": "fanotify", "confidence": 0.8, "epoch_error": 0.1}
    return row(uid, **told | fields)


def test_workers_that_say_nothing_are_known_by_their_reads_and_the_source_is_said() -> None:
    known = progress(seen("u0"), seen("u1", confidence=0.6, epoch=4))
    assert (known.phase, known.phase_source, known.confidence) == ("Training", "fanotify", 0.6)
    assert (known.epoch, known.epoch_source) == ("3", "fanotify")


def test_a_workers_own_word_counts_for_all() -> None:
    validating = row("u0", phase="Validation", epoch=7, source="report", items_per_second=10.0)
    known = progress(seen("u1", items_per_second=500.0), validating, seen("u2", items_per_second=500.0))
    assert (known.phase, known.phase_source, known.confidence) == ("Validation", "report", None)
    assert (known.epoch, known.epoch_source, known.items_per_second) == ("7", "report", 10.0)


def test_what_a_worker_leaves_open_is_said_by_its_reads() -> None:
    known = progress(row("u0", source="report", observed_by="fuse", epoch=2, epoch_error=0.0))
    assert (known.phase_source, known.epoch, known.epoch_source) == ("report", "2", "fuse")


def test_an_epoch_without_an_end_is_told_alone() -> None:
    assert progress(row()).epoch == "3"


@pytest.mark.parametrize(
    ("fresh", "after", "due"),
    [
        (row(), 1.0, None),
        (row(epoch=4), 3.0, NEWS_SECONDS - 3),
        (row(epoch=4), NEWS_SECONDS, 0.0),
        (row(step=9), 3.0, CALM_SECONDS - 3),
    ],
)
def test_news_waits_a_little_and_figures_longer(fresh: NodeWorkload, after: float, due: float | None) -> None:
    assert progress_due_in(progress(row()), (fresh,), NOW + after) == due


def test_what_comes_too_early_is_not_told_yet() -> None:
    old = progress(row())
    assert training_progress(old, (row(epoch=4),), NOW + 1) is old


def test_what_was_last_known_stays_when_the_workers_are_gone() -> None:
    old = progress(row())
    assert training_progress(old, (), NOW + 100) is old


def test_it_says_since_when_the_phase_is_so() -> None:
    later = training_progress(progress(row()), (row(epoch=4),), NOW + 20)
    assert later is not None
    assert (later.phase_since, later.updated_at) == (format_time(NOW), format_time(NOW + 20))


def test_the_status_says_it() -> None:
    facts = JobFacts(job_of(training_job()), (), workloads=(row(epochs=5),))
    status = roll_up_job(training_job(), facts, NOW)
    assert status.training is not None
    assert (status.training.phase, status.training.epoch) == ("Training", "3/5")


def announced(old: TrainingProgress | None, new: TrainingProgress | None) -> list[str]:
    statuses = (TrainingJobStatus(training=one) for one in (old, new))
    return [one.message for one in job_announcements(*statuses) if one.reason == "TrainingPhase"]


def test_another_phase_is_told_in_a_sentence_that_comes_again() -> None:
    training, validating = progress(row(epoch=1)), progress(row(epoch=2, phase="Validation"))
    assert announced(None, training) == ["its workers are in the phase Training"]
    assert announced(training, validating) == ["its workers are in the phase Validation, after Training"]


def test_a_phase_that_reads_tell_is_told_as_such() -> None:
    assert announced(None, progress(seen())) == ["its workers are in the phase Training (as their reads show)"]


def test_another_epoch_is_no_event() -> None:
    assert announced(progress(row(epoch=1)), progress(row(epoch=2))) == []


def test_a_phase_that_flaps_is_told_no_more_than_once_in_ten_seconds() -> None:
    old, told = progress(row()), 0
    for second in range(1, 101):
        fresh = training_progress(old, (row(phase=("Training", "Validation")[second % 2]),), NOW + second)
        assert fresh is not None
        told += len(announced(old, fresh))
        old = fresh
    assert told <= 10

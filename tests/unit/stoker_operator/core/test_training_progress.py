"""The training progress of a TrainingJob: trusted workers, sums over workers, and the rate of changes."""

from dataclasses import replace
from typing import Any

import pytest

from stoker_api.jobs.trainingjob import JobPhase, TrainingJobStatus, TrainingProgress
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import format_time
from stoker_operator.core.jobs.job_facts import JobFacts
from stoker_operator.core.jobs.job_status import roll_up_job
from stoker_operator.core.jobs.job_transitions import job_announcements
from stoker_operator.core.jobs.training_progress import (
    CALM_SECONDS,
    DONE,
    NEWS_SECONDS,
    WorkerRows,
    final_progress,
    phase_seconds,
    progress_due_in,
    standing_workers,
    training_progress,
    workloads_of,
)
from stoker_operator.core.views.cluster import ClusterView, PodView
from tests.support.cases import cases
from tests.support.present import present
from tests.unit.stoker_operator.training import job_of, released, training_job

NOW = 1_000_000.0


def row(uid: str = "u0", **fields: Any) -> NodeWorkload:
    return NodeWorkload(pod=f"vision/{uid}", uid=uid, **{"phase": "Training", "epoch": 3} | fields)


def cache(node: str, *rows: NodeWorkload) -> NodeCache:
    return NodeCache.model_validate({"metadata": {"name": node}, "status": {"workloads": [one.wire() for one in rows]}})


def view(**caches: tuple[NodeWorkload, ...]) -> ClusterView:
    return ClusterView(node_caches={node: cache(node, *rows) for node, rows in caches.items()})


def known_of(*rows: NodeWorkload, last: tuple[NodeWorkload, ...] = (), gone: tuple[str, ...] = ()) -> WorkerRows:
    """Return rows of workers, and the workers ``gone`` without a row."""
    return WorkerRows(rows, last, {*(row.uid for row in (*rows, *last)), *gone})


def progress(*rows: NodeWorkload) -> TrainingProgress:
    return present(training_progress(None, known_of(*rows), NOW))


def test_a_workers_node_speaks_for_it() -> None:
    pods = [replace(released(index, "a"), uid=f"u{index}") for index in (0, 1)]
    assert [one.uid for one in workloads_of(view(a=(row("u0"), row("u1"), row("u9"))), pods)] == ["u0", "u1"]


def test_another_node_does_not() -> None:
    assert workloads_of(view(b=(row("u0"),)), [replace(released(0, "a"), uid="u0")]) == ()


def test_nothing_is_said_until_something_is_known() -> None:
    assert training_progress(None, WorkerRows(), NOW) is None


def test_workers_add_up() -> None:
    known = progress(
        row("u0", epochs=90, items_per_second=100.0, stall_percent=10, stall_source="report", loss="0.7"),
        row("u1", epoch=4, epochs=90, items_per_second=120.4, stall_percent=21, phase="Validation"),
        row("u2", items_per_second=100.0),
    )
    assert (known.phase, known.epoch, known.stall, known.stall_source) == ("Training", "3/90", "16%", "report")
    assert (known.items_per_second, known.loss, known.workers) == (320.0, "0.7", 3)


def seen(uid: str = "u0", **fields: Any) -> NodeWorkload:
    """Make the row of a worker without reports, from its reads."""
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


@cases(
    "fresh, after, due",
    (row(), 1.0, None),
    (row(epoch=4), 3.0, NEWS_SECONDS - 3),
    (row(epoch=4), NEWS_SECONDS, 0.0),
    (row(step=9), 3.0, CALM_SECONDS - 3),
)
def test_news_waits_a_little_and_figures_longer(fresh: NodeWorkload, after: float, due: float | None) -> None:
    assert progress_due_in(progress(row()), known_of(fresh), NOW + after) == due


@pytest.mark.parametrize(("jobs", "seconds"), [(1, 1.0), (20, 4.0), (10_000, NEWS_SECONDS)])
def test_a_phase_is_shown_within_a_second_where_there_are_few_jobs(jobs: int, seconds: float) -> None:
    assert phase_seconds(jobs) == seconds
    due = progress_due_in(progress(row()), known_of(row(epoch=4)), NOW + 0.5, phase_seconds(jobs))
    assert due == seconds - 0.5


def test_what_comes_too_early_is_not_told_yet() -> None:
    old = progress(row())
    assert training_progress(old, known_of(row(epoch=4)), NOW + 1) is old


def test_what_was_last_known_stays_when_the_workers_are_gone() -> None:
    old = progress(row())
    assert training_progress(old, WorkerRows(), NOW + 100) is old


def test_it_says_since_when_the_phase_is_so() -> None:
    later = present(training_progress(progress(row()), known_of(row(epoch=4)), NOW + 20))
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
    training = progress(row(epoch=1))
    validating = training_progress(training, known_of(row(epoch=2, phase="Validation")), NOW + 20)
    assert announced(None, training) == ["its workers are in the phase Training"]
    assert announced(training, validating) == ["its workers are in the phase Validation, after Training"]


def test_a_phase_that_reads_tell_is_told_as_such() -> None:
    assert announced(None, progress(seen())) == ["its workers are in the phase Training (as their reads show)"]


def test_training_that_begins_soon_after_the_start_is_told() -> None:
    starting = progress(row(phase="Initialization"))
    training = training_progress(starting, known_of(row()), NOW + 2, 1.0)
    assert announced(starting, training) == ["its workers are in the phase Training, after Initialization"]


def test_another_epoch_is_no_event() -> None:
    assert announced(progress(row(epoch=1)), progress(row(epoch=2))) == []


def test_a_phase_that_flaps_is_told_no_more_than_once_in_ten_seconds() -> None:
    old, told = progress(row()), 0
    for second in range(1, 101):
        phase = ("Training", "Validation")[second % 2]
        fresh = present(training_progress(old, known_of(row(phase=phase)), NOW + second, 1.0))
        told += len(announced(old, fresh))
        old = fresh
    assert told <= 10


REPORTED = {"source": "report", "epochs": 4, "step": 90, "loss": "0.31", "mean_loss": "0.4", "learning_rate": 0.1}
FIGURES = {"items_per_second": 62.0, "stall_percent": 30, "stall_source": "report", "checkpoint": "saved a.pt"}


def reporter(uid: str = "u0", **fields: Any) -> NodeWorkload:
    """Make the row of a worker that reports every field."""
    return row(uid, **REPORTED | FIGURES | fields)


def shown(known: TrainingProgress | None) -> tuple[object, ...]:
    """Return the progress as users see it."""
    assert known is not None
    words = known.phase, known.epoch, known.stall, known.loss, known.mean_loss, known.checkpoint
    return *words, known.step, known.learning_rate, known.items_per_second


@cases(
    "later",
    its_reads_tell_little=known_of(seen(phase="Initialization", epoch=None)),
    its_reads_tell_all=known_of(
        seen(phase="Initialization", epoch=0, items_per_second=5.0, stall_percent=90, stall_source="fuse")
    ),
    its_row_is_gone_and_another_worker_says_nothing=known_of(seen("u1", phase="Validation"), gone=("u0",)),
    no_rows=known_of(gone=("u0",)),
)
def test_a_row_without_a_report_never_replaces_a_reported_one(later: WorkerRows) -> None:
    old = progress(reporter())
    for second in (1, 11, 61, 3600):
        assert shown(training_progress(old, later, NOW + second)) == shown(old)


def test_a_worker_that_reports_less_keeps_what_it_reported_before() -> None:
    old = progress(reporter("u0"), row("u1", phase="Training", epoch=3))
    later = present(training_progress(old, known_of(row("u1", phase="Validation", epoch=3), gone=("u0",)), NOW + 61))
    assert (later.phase, later.loss, later.checkpoint, later.step) == ("Validation", "0.31", "saved a.pt", 90)


def test_a_pod_that_replaces_the_reporting_one_begins_from_nothing() -> None:
    old = progress(reporter())
    later = present(training_progress(old, known_of(seen("u-new", phase="Initialization", epoch=None)), NOW + 61))
    assert (later.phase, later.epoch, later.loss, later.stall) == ("Initialization", "", "", "")


def test_a_report_ends_the_hold() -> None:
    held = training_progress(progress(reporter()), known_of(seen(phase="Initialization")), NOW + 61)
    later = present(training_progress(held, known_of(reporter(phase="Validation", loss="0.2")), NOW + 200))
    assert (later.phase, later.loss) == ("Validation", "0.2")


def pod_of(index: int, uid: str, **fields: Any) -> PodView:
    labels = {"stoker.dev/training-job": "ddp", "batch.kubernetes.io/job-completion-index": str(index)}
    return replace(released(index, "a"), uid=uid, labels=labels, **fields)


@cases(
    "alive, tries, standing",
    runs=([pod_of(0, "u0")], [], {"u0"}),
    was_replaced=([pod_of(0, "u0b")], [pod_of(0, "u0a", phase="Failed")], {"u0b"}),
    failed_and_is_not_replaced=([pod_of(1, "u1")], [pod_of(0, "u0a", phase="Failed")], {"u0a", "u1"}),
)
def test_a_worker_stands_until_another_pod_replaces_it(
    alive: list[PodView], tries: list[PodView], standing: set[str]
) -> None:
    assert standing_workers(alive, [*alive, *tries]) == standing


def test_the_last_report_of_a_pod_that_ended_is_taken_at_once() -> None:
    old = progress(reporter())
    later = present(training_progress(old, known_of(last=(row(loss="0.1", step=99),)), NOW + 1))
    assert (later.loss, later.step, later.stall, later.items_per_second) == ("0.1", 99, "30%", 62.0)


@pytest.mark.parametrize(("phase", "word"), [(JobPhase.SUCCEEDED, DONE), (JobPhase.FAILED, "Training")])
def test_at_the_end_the_last_figures_stand_and_only_success_is_done(phase: JobPhase, word: str) -> None:
    old = progress(reporter())
    final = present(final_progress(old, known_of(reporter(loss="0.2")), phase, NOW + 1))
    assert (final.phase, final.loss, final.epoch, final.current_epoch) == (word, "0.2", "3/4", "4/4")
    assert final_progress(final, WorkerRows(), phase, NOW + 3600) == final


def test_a_job_of_which_nothing_was_known_is_done_too() -> None:
    final = present(final_progress(None, WorkerRows(), JobPhase.SUCCEEDED, NOW))
    assert (final.phase, final.workers, final.epoch) == (DONE, 0, "")


def test_the_end_is_no_phase_that_an_event_tells_of() -> None:
    old = TrainingJobStatus(phase="Running", training=progress(seen(phase="Validation")))
    done = final_progress(old.training, WorkerRows(), JobPhase.SUCCEEDED, NOW + 1)
    told = job_announcements(old, TrainingJobStatus(phase="Succeeded", training=done))
    assert [one.reason for one in told] == ["Succeeded"]


@cases(
    "epoch, epochs, words", (0, 4, "1/4"), (3, 4, "4/4"), (4, 4, "4/4"), (5, 4, "5/4"), (0, None, "1"), (7, None, "8")
)
def test_epochs_count_from_1_for_people(epoch: int, epochs: int | None, words: str) -> None:
    known = progress(row(epoch=epoch, epochs=epochs))
    assert (known.epoch, known.current_epoch) == (f"{epoch}/{epochs}" if epochs else str(epoch), words)

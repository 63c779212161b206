"""The activity of a workload, from its accesses and reports."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_tuning.training.accesses import (
    AccessSampling,
    ModelFileAction,
    ModelFileUse,
    SamplingMethod,
    SeenAccess,
    SelfReport,
)
from stoker_tuning.training.epochs import EpochMethod
from stoker_tuning.training.layout import FileFact, make_layout
from stoker_tuning.training.workload import WorkloadTracker
from stoker_tuning.vocabulary import AccessPattern, AccessSource, ModelFileKind, Split, TrainingPhase
from tests.unit.stoker_tuning.training.simulation import layout, opens, shuffled

TRAIN, VALIDATION = range(400), range(400, 500)


def tracker(*accesses: Iterable[SeenAccess]) -> WorkloadTracker:
    made = WorkloadTracker(layout(train=400, val=100))
    for group in accesses:
        for access in group:
            made.saw(access)
    return made


def now(workload: WorkloadTracker) -> TrainingPhase:
    return workload.phase.phase


def reads(file: int, size: int, start: float, request: int = 131072) -> list[SeenAccess]:
    """Read a file from front to back, as FUSE sees it."""
    return [
        SeenAccess(start + offset * 1e-9, file, offset, min(request, size - offset), 1, AccessSource.FUSE)
        for offset in range(0, size, request)
    ]


def test_validation_is_noticed_within_sixteen_files() -> None:
    made = tracker(opens(shuffled(TRAIN, 1)), opens(list(VALIDATION)[:16], start=10.0))
    assert now(made) is TrainingPhase.VALIDATION


def test_slow_validation_is_noticed_within_some_seconds() -> None:
    made = tracker(opens(shuffled(TRAIN, 1)), opens(list(VALIDATION)[:5], start=10.0, every=1.5))
    assert now(made) is TrainingPhase.VALIDATION


def test_validation_does_not_count_as_an_epoch() -> None:
    made = tracker(opens(shuffled(TRAIN, 1)), opens(VALIDATION, start=5.0), opens(VALIDATION, start=7.0))
    assert made.at(10.0).epoch.number == 0


def test_another_share_of_what_is_seen_goes_into_the_estimates() -> None:
    made = tracker(opens(shuffled(TRAIN, 1)[:200]))
    before = made.at(2.0)
    made.resample(AccessSampling(SamplingMethod.TIME, 0.5))
    after = made.at(2.0)
    assert after.rates.items_per_second == pytest.approx(2 * before.rates.items_per_second)
    assert before.epoch.error == 0.0
    assert after.epoch.error > 0.0


def test_the_next_epoch_is_counted() -> None:
    made = tracker(opens(shuffled(TRAIN, 1)), opens(VALIDATION, start=5.0), opens(shuffled(TRAIN, 2)[:100], start=7.0))
    assert made.at(10.0).epoch.number == 1
    assert made.at(10.0).epoch.progress == pytest.approx(0.25, abs=0.01)


@given(st.integers(0, 600), st.floats(0, 1e9))
@settings(max_examples=30, deadline=None)
def test_a_later_moment_changes_the_rates_alone(count: int, later: float) -> None:
    made = tracker(opens([*shuffled(TRAIN, 1), *VALIDATION, *shuffled(TRAIN, 2)][:count]))
    soon, then = made.at(10.0), made.at(10.0 + later)
    assert (soon.phase, soon.epoch, soon.pattern, soon.splits) == (then.phase, then.epoch, then.pattern, then.splits)


def test_a_checkpoint_that_is_written_is_seen_at_once_and_until_data_is_read_again() -> None:
    made = tracker(opens(shuffled(TRAIN, 1)))
    made.used(ModelFileUse(4.0, "epoch0.pt", ModelFileKind.CHECKPOINT, ModelFileAction.SAVING))
    assert now(made) is TrainingPhase.SAVE_CHECKPOINT
    for access in opens(shuffled(TRAIN, 2)[:8], start=4.1):  # workers that read ahead
        made.saw(access)
    made.used(ModelFileUse(5.0, "epoch0.pt", ModelFileKind.CHECKPOINT, ModelFileAction.SAVED))
    assert now(made) is TrainingPhase.SAVE_CHECKPOINT
    for access in opens(shuffled(TRAIN, 2)[8:30], start=5.1):
        made.saw(access)
    assert now(made) is TrainingPhase.TRAINING


def test_a_checkpoint_whose_end_was_lost_does_not_last_for_ever() -> None:
    made = tracker(opens(shuffled(TRAIN, 1)))
    made.used(ModelFileUse(4.0, "epoch0.pt", ModelFileKind.CHECKPOINT, ModelFileAction.SAVING))
    for epoch in range(2):
        for access in opens(shuffled(TRAIN, epoch), start=4.1 + 4 * epoch):
            made.saw(access)
    assert now(made) is TrainingPhase.TRAINING


def test_saves_of_a_checkpoint_are_counted_with_their_frequency_and_epoch() -> None:
    made = tracker(opens(shuffled(TRAIN, 1)))
    for seconds in (100.0, 1900.0, 3700.0):
        made.used(ModelFileUse(seconds, "epoch=2.ckpt", ModelFileKind.CHECKPOINT, ModelFileAction.SAVED))
    used = made.at(4000.0).model_files["epoch=2.ckpt"]
    assert (used.saves, used.saves_an_hour, used.epoch) == (3, 2.0, 2)


def test_loads_of_a_versions_weights_are_counted() -> None:
    size = 1 << 20
    made = WorkloadTracker(make_layout([FileFact(0, "model.safetensors", size)]))
    for second in (0.0, 1800.0):
        for access in [*reads(0, size, second), *reads(1, 10, second + 1)]:
            made.saw(access)
    used = made.at(4000.0).model_files["model.safetensors"]
    assert (used.kind, used.loads, used.loads_an_hour) == (ModelFileKind.WEIGHTS, 2, 2.0)


def test_a_config_file_that_is_written_is_no_checkpoint() -> None:
    made = tracker(opens(shuffled(TRAIN, 1)))
    made.used(ModelFileUse(4.0, "config.json", ModelFileKind.ARCHITECTURE, ModelFileAction.SAVED))
    assert now(made) is TrainingPhase.TRAINING


def test_a_server_that_has_loaded_its_weights_infers() -> None:
    size = 4 << 20
    made = WorkloadTracker(make_layout([FileFact(0, "config.json", 100), FileFact(1, "model.safetensors", size)]))
    made.mounted(0.0)
    loading = reads(1, size, 1.0)
    for access in loading[: len(loading) // 2]:
        made.saw(access)
    assert now(made) is TrainingPhase.INITIALIZATION
    for access in [*loading[len(loading) // 2 :], SeenAccess(3.0, 1, 12345, 4096, 1, AccessSource.FUSE)]:
        made.saw(access)
    assert now(made) is TrainingPhase.INFERENCE


def test_a_server_that_is_seen_to_open_its_weights_and_nothing_more_infers() -> None:
    made = WorkloadTracker(make_layout([FileFact(0, "config.json", 100), FileFact(1, "model.safetensors", 10**6)]))
    for access in opens([0, 1]):
        made.saw(access)
    assert now(made) is TrainingPhase.INFERENCE


def test_weights_beside_training_data_are_no_inference() -> None:
    facts = [FileFact(0, "model.safetensors", 1000), *(FileFact(n, f"train/{n}.jpg", 10**6) for n in range(1, 401))]
    made = WorkloadTracker(make_layout(facts))
    for access in [*reads(0, 1000, 0.0), *opens(shuffled(range(1, 401), 1), start=2.0)]:
        made.saw(access)
    assert now(made) is TrainingPhase.TRAINING


def test_the_pods_epoch_goes_before_the_counted_one() -> None:
    made = tracker(opens(shuffled(TRAIN, 1)))
    made.reported(SelfReport(5.0, epoch=7))
    view = made.at(5.0)
    assert (view.epoch.number, view.epoch_source) == (7, AccessSource.REPORT)
    assert view.phase.phase is TrainingPhase.TRAINING


def test_several_reads_of_a_file_are_one_item() -> None:
    made = WorkloadTracker(layout(train=400))
    for index, file in enumerate(shuffled(TRAIN, 1)):
        for access in reads(file, 100_000, index * 0.01, request=32768):
            made.saw(access)
    view = made.at(4.0)
    assert view.rates.items_per_second == pytest.approx(100, rel=0.05)
    assert view.pattern.pattern is AccessPattern.SHUFFLED
    assert (view.epoch.number, view.epoch.progress) == (0, 1.0)


def test_tokens_drawn_from_one_large_file_are_random_and_counted_by_volume() -> None:
    size = 1 << 30
    made = WorkloadTracker(make_layout([FileFact(0, "train.bin", size)]))
    for index, block in enumerate(shuffled(range(0, size, 1 << 20), 3) * 2):
        made.saw(SeenAccess(index * 0.01, 0, block + 4096, 1 << 20, 1, AccessSource.FUSE))
    view = made.at(20.0)
    assert view.pattern.pattern is AccessPattern.RANDOM
    assert view.epoch.method is EpochMethod.VOLUME
    assert view.epoch.number == 2


def test_shards_that_are_read_through_are_sequential_and_epochs() -> None:
    size = 32 << 20
    made = WorkloadTracker(make_layout(FileFact(n, f"train-{n:05}.tar", size) for n in range(20)))
    for epoch in range(2):
        for index, shard in enumerate(shuffled(range(20), epoch)):
            for access in reads(shard, size, epoch * 20.0 + index, request=1 << 20):
                made.saw(access)
    view = made.at(40.0)
    assert view.pattern.pattern is AccessPattern.SEQUENTIAL
    assert (view.epoch.number, view.splits[0][0]) == (1, Split.TRAIN)


def test_readers_are_counted() -> None:
    assert tracker(opens(shuffled(TRAIN, 1), readers=(11, 12, 13))).at(5.0).readers == 3


def test_a_file_that_the_version_has_not_is_taken_in_silence() -> None:
    made = WorkloadTracker(make_layout([]))
    for access in opens(range(10)):
        made.saw(access)
    assert now(made) is TrainingPhase.INITIALIZATION


def test_ten_million_files_stay_below_four_megabytes() -> None:
    made = WorkloadTracker(make_layout(FileFact(n, "train/x", 1) for n in range(100)))
    for access in opens(range(0, 10_000_000, 3000)):
        made.saw(access)
    assert made.memory < 4_000_000

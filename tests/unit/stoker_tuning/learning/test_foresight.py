from pathlib import Path

from stoker_cli.tuning.replay import replay
from stoker_cli.tuning.trace import read_trace
from stoker_tuning.learning.foresight import Foresight, Want
from stoker_tuning.vocabulary import Split, TrainingPhase

TRAIN, VALID, SAVE = TrainingPhase.TRAINING, TrainingPhase.VALIDATION, TrainingPhase.SAVE_CHECKPOINT
BOTH = frozenset({Split.TRAIN, Split.VALIDATION})


def played(*phases: tuple[TrainingPhase, float]) -> Foresight:
    foresight = Foresight(BOTH)
    for phase, items in phases:
        foresight.saw(phase, items)
    return foresight


def test_before_anything_was_seen_the_usual_is_expected() -> None:
    foresight = played((TrainingPhase.INITIALIZATION, 0))
    first = foresight.next()
    foresight.saw(TRAIN, 10)
    second = foresight.next()

    assert first is not None
    assert second is not None
    assert (first.phase, first.wants) == (TRAIN, Want.TRAIN)
    assert (second.phase, second.wants, second.items_left) == (VALID, Want.VALIDATION, None)


def test_without_a_validation_split_none_is_expected() -> None:
    foresight = Foresight(frozenset({Split.TRAIN}))
    foresight.saw(TRAIN, 0)

    assert foresight.next() is None


def test_validation_comes_after_as_many_items_as_the_times_before() -> None:
    foresight = played((TRAIN, 0), (VALID, 1000), (TRAIN, 1100), (VALID, 2100), (TRAIN, 2200), (TRAIN, 2900))
    found = foresight.next()

    assert found is not None
    assert (found.phase, found.items_left) == (VALID, 300)


def test_what_came_before_tells_apart_what_follows_the_same_phase() -> None:
    epochs = [(TRAIN, 1000.0), (VALID, 1100.0), (SAVE, 1110.0)]
    foresight = Foresight(BOTH)
    for epoch in range(4):
        for phase, items in epochs:
            foresight.saw(phase, 2000 * epoch + items)
    foresight.saw(TRAIN, 9000)
    foresight.saw(VALID, 9100)
    found = foresight.next()

    assert found is not None
    assert (found.phase, found.wants) == (SAVE, Want.NOTHING)
    assert found.confidence > 0.8


def test_predictions_are_held_to_what_comes() -> None:
    foresight = played((TRAIN, 0))

    assert foresight.saw(VALID, 100) is True
    assert foresight.saw(SAVE, 120) is False
    assert foresight.saw(SAVE, 130) is None
    assert (foresight.hits.predictions, foresight.hits.hits) == (2, 1)


def test_most_phases_of_a_recorded_training_are_foreseen_from_the_first_epoch_on() -> None:
    trace = Path(__file__).parents[2] / "stoker_cli" / "traces" / "imagefolder.jsonl.gz"
    foresight = Foresight(BOTH)
    for moment in replay(read_trace(trace), 100).moments:
        foresight.saw(moment.view.phase.phase, moment.view.accesses)

    assert foresight.hits.predictions >= 8
    assert foresight.hits.interval[0] > 0.45

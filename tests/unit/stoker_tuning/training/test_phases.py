"""Phases follow evidence, with hysteresis, and never the clock."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stoker_tuning.training.phases import Evidence, PhaseState, advance, beside_others
from stoker_tuning.vocabulary import AccessPattern, Split, TrainingPhase
from tests.support.cases import cases

TRAIN = Evidence(1.0, items=((Split.TRAIN, 8),))
VALIDATE = Evidence(2.0, items=((Split.VALIDATION, 8),))
TEST = Evidence(2.0, items=((Split.TEST, 8),))
UNSPLIT = Evidence(1.0, items=((Split.UNKNOWN, 8),))
LOAD = Evidence(1.0, model_reads=4)
LOADED = replace(LOAD, model_loaded=True)
MOUNTED = Evidence(0.0, mounted=True)
SWEEP = replace(TRAIN, siblings=3)

EVIDENCE = st.builds(
    Evidence,
    st.floats(0, 1e6),
    items=st.dictionaries(st.sampled_from(list(Split)), st.integers(1, 9)).map(lambda items: tuple(items.items())),
    pattern=st.sampled_from(list(AccessPattern)),
    epochs=st.integers(0, 3),
    model_reads=st.integers(0, 9),
    model_small_reads=st.integers(0, 9),
    model_loaded=st.booleans(),
    only_models=st.booleans(),
    siblings=st.integers(0, 3),
    other_reads=st.integers(0, 3),
    told=st.none() | st.sampled_from(list(TrainingPhase)),
    saving=st.booleans(),
    saved=st.booleans(),
)


def after(*windows: Evidence) -> PhaseState:
    state = PhaseState()
    for evidence in windows:
        state = advance(state, evidence)
    return state


@cases(
    "windows, phase",
    ([], TrainingPhase.UNKNOWN),
    ([MOUNTED], TrainingPhase.INITIALIZATION),
    ([MOUNTED, LOAD, LOAD], TrainingPhase.INITIALIZATION),
    ([MOUNTED, TRAIN, TRAIN], TrainingPhase.TRAINING),
    ([TRAIN, VALIDATE, VALIDATE], TrainingPhase.VALIDATION),
    ([TRAIN, VALIDATE, VALIDATE, TRAIN, TRAIN], TrainingPhase.TRAINING),
    ([TRAIN, Evidence(3.0, saving=True)], TrainingPhase.SAVE_CHECKPOINT),
    ([TRAIN, Evidence(3.0, saved=True), TRAIN, TRAIN], TrainingPhase.TRAINING),
    ([TRAIN, TEST, TEST], TrainingPhase.EVALUATION),
    (
        [LOADED, replace(VALIDATE, model_loaded=True), replace(VALIDATE, model_loaded=True)],
        TrainingPhase.EVALUATION,
    ),
    ([MOUNTED, replace(LOADED, only_models=True)], TrainingPhase.INFERENCE),
    ([LOAD, replace(LOADED, model_small_reads=4), replace(LOADED, model_small_reads=4)], TrainingPhase.INFERENCE),
    ([TRAIN, SWEEP, SWEEP], TrainingPhase.HYPERPARAM_TUNING),
    ([SWEEP, VALIDATE, VALIDATE, SWEEP, SWEEP], TrainingPhase.HYPERPARAM_TUNING),
    ([TRAIN, replace(LOADED, model_small_reads=4), replace(LOADED, model_small_reads=4)], TrainingPhase.TRAINING),
    ([UNSPLIT], TrainingPhase.TRAINING),
)
def test_evidence_makes_the_phase(windows: list[Evidence], phase: TrainingPhase) -> None:
    assert after(*windows).phase is phase


@cases(
    "windows, phase",
    not_at_one_window=([TRAIN, TRAIN, VALIDATE], TrainingPhase.TRAINING),
    not_at_windows_that_differ_in_turn=([TRAIN, *[VALIDATE, TRAIN] * 5], TrainingPhase.TRAINING),
    at_a_second_window=([TRAIN, TRAIN, VALIDATE, VALIDATE], TrainingPhase.VALIDATION),
)
def test_the_phase_changes(windows: list[Evidence], phase: TrainingPhase) -> None:
    assert after(*windows).phase is phase


@cases(
    "windows, siblings, phase",
    ([TRAIN], 3, TrainingPhase.HYPERPARAM_TUNING),
    ([SWEEP], 0, TrainingPhase.TRAINING),
    ([TRAIN, VALIDATE, VALIDATE], 3, TrainingPhase.VALIDATION),
    ([replace(TRAIN, told=TrainingPhase.TRAINING)], 3, TrainingPhase.TRAINING),
)
def test_training_is_called_by_what_others_do_as_soon_as_that_is_known(
    windows: list[Evidence], siblings: int, phase: TrainingPhase
) -> None:
    assert beside_others(after(*windows), siblings).phase is phase


def test_a_window_that_spoke_for_training_still_counts_when_others_are_known() -> None:
    state = beside_others(after(TRAIN, VALIDATE, VALIDATE, TRAIN), 3)
    assert advance(state, SWEEP).phase is TrainingPhase.HYPERPARAM_TUNING


def test_a_phase_dates_from_the_first_window_that_spoke_for_it() -> None:
    assert after(TRAIN, replace(VALIDATE, seconds=5.0), replace(VALIDATE, seconds=7.0)).since == 5.0


def test_shuffled_data_of_no_split_is_surer_to_train() -> None:
    ordered, shuffled = (
        after(replace(UNSPLIT, pattern=pattern)) for pattern in (AccessPattern.SEQUENTIAL, AccessPattern.SHUFFLED)
    )
    assert ordered.confidence < shuffled.confidence


@given(st.lists(EVIDENCE, max_size=12), st.floats(0, 1e9))
def test_time_alone_changes_nothing(windows: list[Evidence], later: float) -> None:
    state = after(*windows)
    assert advance(state, Evidence(later)) == state


@given(st.lists(EVIDENCE, max_size=12), st.sampled_from(list(TrainingPhase)))
def test_the_pods_own_word_wins(windows: list[Evidence], told: TrainingPhase) -> None:
    state = advance(after(*windows), Evidence(1.0, told=told))
    assert (state.phase, state.confidence) == (told, 1.0)
    assert advance(state, VALIDATE).phase is told


@given(st.lists(EVIDENCE, max_size=20))
def test_confidence_stays_between_none_and_all(windows: list[Evidence]) -> None:
    assert 0 <= after(*windows).confidence <= 1


@given(st.lists(EVIDENCE.map(lambda seen: replace(seen, told=None)), max_size=12))
def test_two_windows_are_enough_for_every_phase_that_data_shows(windows: list[Evidence]) -> None:
    for evidence, phase in ((VALIDATE, None), (TEST, TrainingPhase.EVALUATION), (TRAIN, TrainingPhase.TRAINING)):
        state = advance(advance(after(*windows), evidence), evidence)
        expected = phase or (
            TrainingPhase.VALIDATION if not state.trained or state.phase is TrainingPhase.VALIDATION else state.phase
        )
        assert state.phase is expected

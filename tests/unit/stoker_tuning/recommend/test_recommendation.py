"""Recommendations: the figures of the vocabulary, and values that rules set instead."""

from dataclasses import fields
from typing import Any

import pytest

from stoker_tuning.recommend.knobs import KNOBS, KnobKind
from stoker_tuning.recommend.named_sets import DEFAULTS, NAMED_SETS, PHASES
from stoker_tuning.recommend.recommendation import Explained, Recommendation, recommend
from stoker_tuning.rules.compiled import compile_rules
from stoker_tuning.rules.facts import AccessFacts, FileFacts, Surroundings, WorkloadFacts
from stoker_tuning.rules.merging import GivenValue, given_values
from stoker_tuning.rules.spec import ActionSpec, KnobValue, RuleOrigin, RuleSpec
from stoker_tuning.vocabulary import ActionTarget, ActionType, ModelFileKind, RuleLayer, TrainingPhase
from tests.support.cases import cases

PYTHON_TYPES: dict[KnobKind, type | tuple[type, ...]] = {
    KnobKind.BYTES: int,
    KnobKind.COUNT: int,
    KnobKind.NUMBER: (int, float),
    KnobKind.SWITCH: bool,
    KnobKind.WORD: str,
}


def around(phase: TrainingPhase | None = None, items_per_second: float | None = None) -> Surroundings:
    return Surroundings(AccessFacts(items_per_second=items_per_second), WorkloadFacts(phase=phase))


def by_rules(*actions: ActionSpec, phase: TrainingPhase | None = None) -> Explained:
    specs = [
        RuleSpec(f"r{number}", RuleOrigin("d", RuleLayer.CUSTOM), (), (action,))
        for number, action in enumerate(actions)
    ]
    rules = compile_rules(specs)
    return recommend(given_values(rules, range(len(rules)), FileFacts("a")), around(phase))


def action(kind: ActionType, target: ActionTarget = ActionTarget.FILE, **parameters: KnobValue) -> ActionSpec:
    return ActionSpec(kind, target, parameters)


@cases(
    "phase, expected",
    (None, {"prefetch_size": 64 << 10, "should_cache": True, "cache_priority": "Normal", "level": "Balanced"}),
    (TrainingPhase.INITIALIZATION, {"level": "Basic", "strategy": "Conservative"}),
    (
        TrainingPhase.TRAINING,
        {"prefetch_size": 1 << 20, "should_cache": True, "cache_priority": "High", "level": "Aggressive"},
    ),
    (
        TrainingPhase.VALIDATION,
        {"prefetch_size": 256 << 10, "should_cache": True, "cache_priority": "Normal", "strategy": "Balanced"},
    ),
    (
        TrainingPhase.SAVE_CHECKPOINT,
        {"prefetch_size": 0, "should_cache": False, "cache_priority": "Low", "cache_policy": "ML"},
    ),
)
def test_a_phase_has_the_figures_of_the_vocabulary(phase: TrainingPhase | None, expected: dict[str, Any]) -> None:
    found = recommend({}, around(phase)).values
    assert {name: getattr(found, name) for name in expected} == expected


@cases("rate, level, strategy", (9.9, "Maximum", "Adaptive"), (10, "Aggressive", "Aggressive"))
def test_slow_training_is_given_more(rate: float, level: str, strategy: str) -> None:
    found = recommend({}, around(TrainingPhase.TRAINING, rate)).values
    assert (found.level, found.strategy) == (level, strategy)


def test_a_level_that_a_rule_names_counts_before_the_phase() -> None:
    found = by_rules(action(ActionType.PRIORITIZE, level="Maximum"), phase=TrainingPhase.TRAINING)
    assert found.values.prefetch_size == 8 << 20
    assert found.origins["prefetch_size"] == "level Maximum"


def test_the_first_rule_has_a_knob_and_later_ones_fill_the_rest() -> None:
    first = action(ActionType.STREAM, chunk_size=1 << 20)
    second = action(ActionType.STREAM, chunk_size=2 << 20, parallel_streams=3)
    found = by_rules(first, second)
    assert (found.values.chunk_size, found.values.parallel_streams) == (1 << 20, 3)
    givers = [found.origins[name] for name in ("chunk_size", "parallel_streams")]
    assert [giver.rule.id for giver in givers if isinstance(giver, GivenValue)] == ["r0", "r1"]


@cases(
    "target, file, counts",
    (ActionTarget.FILE, FileFacts("a"), True),
    (ActionTarget.FILE, None, False),
    (ActionTarget.MODEL, FileFacts("a"), False),
    (ActionTarget.MODEL, FileFacts("a", type=ModelFileKind.WEIGHTS), True),
    (ActionTarget.DATASET, None, True),
    (ActionTarget.WORKLOAD, FileFacts("a"), True),
)
def test_an_action_counts_for_its_target(target: ActionTarget, file: FileFacts | None, counts: bool) -> None:
    spec = RuleSpec("r", RuleOrigin("d", RuleLayer.CUSTOM), (), (action(ActionType.CACHE, target, should_cache=False),))
    assert bool(given_values(compile_rules([spec]), [0], file)) is counts


def test_every_knob_is_a_field_of_a_recommendation_and_every_field_a_knob() -> None:
    assert {field.name for field in fields(Recommendation)} == {knob.name for knob in KNOBS}


@pytest.mark.parametrize("phase", TrainingPhase)
def test_every_phase_gives_every_knob_a_value_and_says_from_where(phase: TrainingPhase) -> None:
    assert set(recommend({}, around(phase)).origins) == {knob.name for knob in KNOBS}


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
def test_the_tables_hold_values_that_documents_could(knob: Any) -> None:
    sets = [DEFAULTS, *PHASES.values(), *(each for sets in NAMED_SETS.values() for each in sets.values())]
    values = [each[knob.name] for each in sets if knob.name in each]
    assert all(isinstance(value, PYTHON_TYPES[knob.kind]) for value in values)
    if knob.kind in (KnobKind.BYTES, KnobKind.COUNT, KnobKind.NUMBER):
        assert all(knob.least <= value <= knob.most for value in values)


@pytest.mark.parametrize("knob", NAMED_SETS)
def test_every_word_of_a_named_set_has_its_values(knob: str) -> None:
    (words,) = [each.words for each in KNOBS if each.name == knob]
    assert words is not None
    assert list(NAMED_SETS[knob]) == list(words)

"""Recommendations: the figures of the vocabulary, and values that rules set instead."""

from dataclasses import fields

import pytest

from stoker_tuning.documents.named_sets import named_sets
from stoker_tuning.recommend.knobs import KNOBS
from stoker_tuning.recommend.named_sets import NAMING_KNOBS
from stoker_tuning.recommend.recommendation import Explained, Recommendation, recommend
from stoker_tuning.rules.compiled import compile_rules
from stoker_tuning.rules.facts import FileFacts
from stoker_tuning.rules.merging import GivenValue, given_values
from stoker_tuning.rules.spec import ActionSpec, KnobValue, RuleOrigin, RuleSpec
from stoker_tuning.vocabulary import ActionTarget, ActionType, ModelFileKind, OptimizationLevel, RuleLayer
from tests.support.cases import cases

SETS = named_sets()


def by_rules(*actions: ActionSpec) -> Explained:
    specs = [
        RuleSpec(f"r{number}", RuleOrigin("d", RuleLayer.CUSTOM), (), (action,))
        for number, action in enumerate(actions)
    ]
    rules = compile_rules(specs)
    return recommend(given_values(rules, range(len(rules)), FileFacts("a")), SETS)


def action(kind: ActionType, target: ActionTarget = ActionTarget.FILE, **parameters: KnobValue) -> ActionSpec:
    return ActionSpec(kind, target, parameters)


def naming(**names: str) -> ActionSpec:
    return ActionSpec(ActionType.PRIORITIZE, ActionTarget.FILE, dict(names))


def test_without_rules_the_level_balanced_gives_every_value() -> None:
    found = by_rules()
    assert (found.values.level, found.origins["level"]) == ("Balanced", "default")
    assert found.origins["prefetch_size"] == "level Balanced"


def test_a_level_fills_what_later_rules_leave_open() -> None:
    found = by_rules(naming(level="Maximum"), action(ActionType.STREAM, parallel_streams=3))
    assert (found.values.parallel_streams, found.values.kernel_read_ahead) == (3, 64 << 20)
    assert found.origins["kernel_read_ahead"] == "level Maximum"


def test_the_level_basic_precedes_later_rules_and_no_earlier_one() -> None:
    first, last = action(ActionType.PREFETCH, prefetch_depth=7), action(ActionType.STREAM, parallel_streams=3)
    found = by_rules(first, naming(level="Basic"), last, action(ActionType.CACHE, cache_priority="Urgent"))
    assert (found.values.prefetch_depth, found.values.parallel_streams) == (7, 1)
    assert (found.values.cache_priority, found.values.lane_weight) == ("Normal", 4)


def test_the_level_basic_precedes_a_strategy_of_a_later_rule() -> None:
    assert by_rules(naming(level="Basic"), naming(strategy="Aggressive")).values.prefetch_depth == 0


@pytest.mark.parametrize("level", OptimizationLevel)
def test_a_strategy_precedes_the_level_of_its_rule(level: str) -> None:
    assert by_rules(naming(level=level, strategy="Conservative")).values.prefetch_depth == 8


def test_the_first_rule_has_a_knob_and_later_ones_fill_the_rest() -> None:
    first = action(ActionType.STREAM, min_ratio=2)
    second = action(ActionType.STREAM, min_ratio=4, parallel_streams=3)
    found = by_rules(first, second)
    assert (found.values.min_ratio, found.values.parallel_streams) == (2, 3)
    givers = [found.origins[name] for name in ("min_ratio", "parallel_streams")]
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


def test_the_default_level_gives_every_knob_a_value() -> None:
    assert set(by_rules().origins) == {knob.name for knob in KNOBS}


@pytest.mark.parametrize("knob", NAMING_KNOBS)
def test_every_word_of_a_named_set_has_its_values(knob: str) -> None:
    (words,) = [each.words for each in KNOBS if each.name == knob]
    assert words is not None
    assert list(SETS[knob]) == list(words)


def test_only_the_level_basic_precedes_rules() -> None:
    found = [name for sets in SETS.values() for name, each in sets.items() if each.over_rules]
    assert found == [OptimizationLevel.BASIC]

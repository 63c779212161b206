"""Rules evaluated for files: groups give the same results as single files."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stoker_tuning.rules.compiled import compile_rules
from stoker_tuning.rules.facts import AccessFacts, FileFacts, Surroundings, SystemFacts, WorkloadFacts
from stoker_tuning.rules.file_rules import FileRules
from stoker_tuning.rules.spec import ActionSpec, ConditionSpec, RuleOrigin, RuleSpec
from stoker_tuning.vocabulary import (
    AccessPattern,
    ActionTarget,
    ActionType,
    ConditionOperator,
    ConditionScope,
    ModelFileKind,
    RuleLayer,
    Split,
    TrainingPhase,
)
from tests.support.cases import cases

ORIGIN = RuleOrigin("test", RuleLayer.CUSTOM)
CACHE = (ActionSpec(ActionType.CACHE, ActionTarget.FILE, {"should_cache": True}),)
FILE, PATTERN = ConditionScope.FILE_CONTEXT, ConditionScope.FILE_PATTERN


def condition(name: str, operator: str, value: Any, scope: ConditionScope = FILE, weight: float = 1.0) -> ConditionSpec:
    return ConditionSpec(scope, name, ConditionOperator(operator), value, weight)


def rule(*conditions: ConditionSpec, **others: Any) -> RuleSpec:
    return RuleSpec(others.pop("id", "r"), ORIGIN, conditions, CACHE, **others)


def applies(spec: RuleSpec, file: FileFacts, around: Surroundings | None = None) -> bool:
    return bool(FileRules(compile_rules([spec]), around or Surroundings()).applying(file))


@cases(
    "name, operator, value, holds",
    ("size", "equals", 100, True),
    ("size", "not_equals", 100, False),
    ("size", "greater_than", 100, False),
    ("size", "greater_or_equal", 100, True),
    ("size", "less_than", 100, False),
    ("size", "less_or_equal", 100, True),
    ("size", "in", (1, 100), True),
    ("size", "not_in", (1, 100), False),
    ("size", "exists", True, True),
    ("size", "exists", False, False),
    ("extension", "equals", ".jpg", True),
    ("name", "equals", "1.JPG", True),
    ("path", "contains", "rain/", True),
    ("path", "matches", r"^train/\d", True),
    ("path", "matches", r"^\d", False),
    ("type", "equals", "Weights", False),
    ("type", "not_equals", "Weights", False),
    ("type", "exists", False, True),
    ("split", "in", ("train", "test"), True),
)
def test_a_condition_holds(name: str, operator: str, value: Any, holds: bool) -> None:
    file = FileFacts("train/1.JPG", 100, split=Split.TRAIN)
    assert applies(rule(condition(name, operator, value)), file) is holds


@cases(
    "scope, name, operator, value",
    (ConditionScope.ACCESS_PATTERN, "pattern", "equals", "shuffled"),
    (ConditionScope.ACCESS_PATTERN, "items_per_second", "less_than", 10),
    (ConditionScope.WORKLOAD_CONTEXT, "phase", "equals", "Training"),
    (ConditionScope.WORKLOAD_CONTEXT, "framework", "in", ("pytorch", "jax")),
    (ConditionScope.WORKLOAD_CONTEXT, "batch_size", "greater_or_equal", 32),
    (ConditionScope.WORKLOAD_CONTEXT, "namespace", "not_equals", "vision"),
    (ConditionScope.SYSTEM_CONTEXT, "gpu_count", "greater_or_equal", 8),
)
def test_a_condition_of_workload_and_node_holds(scope: ConditionScope, name: str, operator: str, value: Any) -> None:
    around = Surroundings(
        AccessFacts(AccessPattern.SHUFFLED, 5.0),
        WorkloadFacts("pytorch", TrainingPhase.TRAINING, 32, namespace="text"),
        SystemFacts(gpu_count=8),
    )
    spec = rule(condition(name, operator, value, scope))
    assert applies(spec, FileFacts("a"), around)
    assert not applies(spec, FileFacts("a"))


def test_a_rule_applies_from_its_threshold_on() -> None:
    half = (condition("extension", "equals", ".x", weight=0.6), condition("size", "equals", 1, weight=0.4))
    file = FileFacts("a.x", 2)
    assert applies(rule(*half, threshold=0.6), file)
    assert not applies(rule(*half, threshold=0.61), file)


def test_tenths_of_weights_add_up() -> None:
    tenths = [condition("extension", "equals", ".x", weight=0.1) for _ in range(3)]
    assert applies(rule(*tenths, threshold=1.0), FileFacts("a.x"))


def test_a_gate_has_to_hold_whatever_the_threshold() -> None:
    gate = condition("framework", "equals", "jax", ConditionScope.WORKLOAD_CONTEXT)
    spec = rule(condition("extension", "equals", ".x"), threshold=0.1, gates=(gate,))
    assert not applies(spec, FileFacts("a.x"))
    assert applies(spec, FileFacts("a.x"), Surroundings(workload=WorkloadFacts("jax")))


def test_rules_count_by_layer_then_by_priority_then_as_they_are_written() -> None:
    built_in = RuleOrigin("b", RuleLayer.BUILT_IN)
    specs = [
        RuleSpec("built-in", built_in, (), CACHE, 1000),
        rule(id="low"),
        rule(id="also-low"),
        rule(id="high", priority=5),
    ]
    assert [each.spec.id for each in compile_rules(specs)] == ["high", "low", "also-low", "built-in"]


def test_files_of_one_group_are_decided_once() -> None:
    rules = FileRules(compile_rules([rule(condition("size", "greater_than", 10))]), Surroundings())
    found = [rules.applying(FileFacts(f"train/{number}.jpg", 5 + number)) for number in range(10)]
    assert [bool(each) for each in found] == [False] * 6 + [True] * 4
    assert rules.groups == 3  # below 10, at 10, above


def test_without_a_file_only_what_asks_for_none_applies() -> None:
    specs = [rule(id="any"), rule(condition("glob", "not_equals", "*.x", PATTERN), id="file")]
    assert FileRules(compile_rules(specs), Surroundings()).applying_without_file() == (0,)


_FILES = st.builds(
    FileFacts,
    st.text(alphabet="ab/.x", min_size=1, max_size=8).filter(lambda path: not path.endswith("/")),
    st.none() | st.integers(0, 6),
    st.none() | st.sampled_from(ModelFileKind),
    st.none() | st.sampled_from(Split),
)
_WEIGHT = st.sampled_from([0.0, 0.1, 0.5, 1.0])
_CONDITIONS = st.one_of(
    st.builds(
        condition,
        st.just("size"),
        st.sampled_from(["equals", "not_equals", "greater_than", "greater_or_equal", "less_than", "less_or_equal"]),
        st.integers(0, 6),
        weight=_WEIGHT,
    ),
    st.builds(condition, st.just("size"), st.just("exists"), st.booleans(), weight=_WEIGHT),
    st.builds(condition, st.just("extension"), st.sampled_from(["equals", "contains"]), st.just(".x"), weight=_WEIGHT),
    st.builds(condition, st.just("path"), st.just("matches"), st.sampled_from(["^a", "b$", "a/b"]), weight=_WEIGHT),
    st.builds(
        condition,
        st.just("glob"),
        st.sampled_from(["in", "not_in"]),
        st.lists(st.sampled_from(["*.x", "a/**", "a*", "**/b/*", "b/*.x"]), min_size=1, max_size=3).map(tuple),
        st.just(PATTERN),
        _WEIGHT,
    ),
    st.builds(condition, st.just("split"), st.just("not_equals"), st.just("train"), weight=_WEIGHT),
)
_RULES = st.builds(
    lambda conditions, threshold: rule(*conditions, threshold=threshold),
    st.lists(_CONDITIONS, max_size=4),
    st.sampled_from([0.1, 0.5, 0.9, 1.0]),
)


@given(st.lists(_RULES, max_size=4), st.lists(_FILES, max_size=12))
def test_groups_say_what_each_rule_says_of_each_file(specs: list[RuleSpec], files: list[FileFacts]) -> None:
    rules = compile_rules(specs)
    by_groups = FileRules(rules, Surroundings())
    for file in files:
        one_by_one = [place for place, each in enumerate(rules) if each.score(Surroundings(), file).applies]
        assert list(by_groups.applying(file)) == one_by_one

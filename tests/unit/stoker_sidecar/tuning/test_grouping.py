"""Groups of files with the same knobs, by rules and by reading pods."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_sidecar.tuning.core.grouping import CompiledChoice, FileGrouping, concerns_whole_versions
from stoker_sidecar.tuning.source import BuiltInRules, TuningChoice
from stoker_sidecar.wire.fetcher_hints import MOST_GROUPS, FileKnobs
from stoker_tuning.documents.assembly import read_profile
from stoker_tuning.recommend.knobs import MIB
from stoker_tuning.rules.facts import Surroundings, WorkloadFacts
from stoker_tuning.rules.spec import ActionSpec, ConditionSpec, KnobValue, RuleOrigin, RuleSpec, Scalar
from stoker_tuning.vocabulary import (
    ActionTarget,
    ActionType,
    ConditionOperator,
    ConditionScope,
    OptimizationLevel,
    RuleLayer,
    TrainingPhase,
)
from tests.support.cases import cases

NOBODY = (Surroundings(),)
BUILT_IN = BuiltInRules().choice("")


def _condition(scope: ConditionScope, name: str, value: Scalar) -> ConditionSpec:
    return ConditionSpec(scope, name, ConditionOperator.EQUALS, value)


def _glob(glob: str) -> ConditionSpec:
    return _condition(ConditionScope.FILE_PATTERN, "glob", glob)


def _rule(rule_id: str, knob: str, value: KnobValue, *conditions: ConditionSpec) -> RuleSpec:
    action = ActionSpec(ActionType.PREFETCH, ActionTarget.FILE, {knob: value})
    return RuleSpec(rule_id, RuleOrigin("test", RuleLayer.CUSTOM), conditions, (action,))


def _in(phase: TrainingPhase) -> Surroundings:
    return Surroundings(workload=WorkloadFacts(phase=phase))


def _knobs(choice: TuningChoice, path: str, around: Sequence[Surroundings] = NOBODY, size: int = 1000) -> FileKnobs:
    grouping = FileGrouping(CompiledChoice(choice), around)
    number = grouping.number(path, size)
    return grouping.knobs[number]


def test_files_of_which_no_rule_speaks_are_in_group_0_which_is_as_ever() -> None:
    grouping = FileGrouping(CompiledChoice(TuningChoice((_rule("tar", "prefetch_size", 0, _glob("*.tar")),))), NOBODY)
    assert [grouping.number(path, 1) for path in ("a.jpg", "b.tar", "c.jpg", "d.tar")] == [0, 1, 0, 1]
    assert grouping.knobs == (FileKnobs(), FileKnobs(ahead_bytes=0))


def test_files_that_match_are_counted_by_rule() -> None:
    rules = (_rule("tar", "prefetch_size", 0, _glob("*.tar")), _rule("x", "prefetch_depth", 1, _glob("x/*")))
    grouping = FileGrouping(CompiledChoice(TuningChoice(rules)), NOBODY)
    for path in ("x/a.tar", "x/b", "c.tar", "d"):
        grouping.number(path, 1)
    assert grouping.counts()[0] == [2, 2]


def test_a_rule_acts_where_one_of_its_values_is_in_force() -> None:
    rules = (_rule("tar", "prefetch_depth", 3, _glob("*.tar")), _rule("all", "prefetch_depth", 1))
    grouping = FileGrouping(CompiledChoice(TuningChoice(rules)), NOBODY)
    for path in ("a.tar", "b", "c"):
        grouping.number(path, 1)
    assert grouping.counts() == grouping.counts() == ([1, 3], [1, 2])


def test_what_is_off_turns_nothing() -> None:
    rules = CompiledChoice(TuningChoice((_rule("all", "prefetch_size", 0),), level=OptimizationLevel.MAXIMUM, off=True))
    assert not rules.can_matter(NOBODY)


@pytest.mark.parametrize("path", ["config.json", "model.safetensors", "val/1.jpg", "test/1.jpg", "shard.tar"])
@pytest.mark.parametrize("phase", TrainingPhase)
def test_no_built_in_rule_changes_the_level_basic(path: str, phase: TrainingPhase) -> None:
    choice = replace(BUILT_IN, level=OptimizationLevel.BASIC)
    assert _knobs(choice, path, [_in(phase)], 100 * MIB) == _knobs(choice, "a.bin")


def test_a_mount_with_the_level_basic_has_little_read_ahead() -> None:
    grouping = FileGrouping(CompiledChoice(TuningChoice(level=OptimizationLevel.BASIC)), NOBODY)
    grouping.number("a", 1)
    assert grouping.read_ahead == 128 * 1024


@cases("level, concerned", (None, False), *((level, level != "Balanced") for level in OptimizationLevel))
def test_levels_that_concern_versions_on_the_disk(level: OptimizationLevel | None, concerned: bool) -> None:
    assert concerns_whole_versions(TuningChoice(level=level)) is concerned


def test_the_level_of_a_dataset_fills_what_its_profile_leaves_open() -> None:
    choice = TuningChoice((_rule("few", "parallel_streams", 2, _glob("*.tar")),), level=OptimizationLevel.AGGRESSIVE)
    assert _knobs(choice, "a.tar").streams == 2
    assert _knobs(choice, "a.bin").streams == 8


def test_of_the_built_in_rules_weights_go_far_ahead_for_inference_alone() -> None:
    weights = "model.safetensors"
    assert _knobs(BUILT_IN, weights) == FileKnobs(streams=8, warm_rank=1, weight=8, keep=2)
    ahead = FileKnobs(64 * MIB, None, 16, warm_rank=0, weight=16, keep=3)
    assert _knobs(BUILT_IN, weights, [_in(TrainingPhase.INFERENCE)]) == ahead


def test_of_the_built_in_rules_weights_come_before_shards_and_test_data_last_when_a_run_begins() -> None:
    begins = [_in(TrainingPhase.INITIALIZATION)]
    order = ["config.json", "model.safetensors", "train/1.jpg", "test/1.jpg"]
    ranks = [_knobs(BUILT_IN, path, begins).warm_rank for path in order]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == 4


@pytest.mark.parametrize("phase", TrainingPhase)
def test_of_the_built_in_rules_weights_come_before_shards_in_every_phase(phase: TrainingPhase) -> None:
    paths = ("model-00001-of-00002.safetensors", "train/1.tar")
    weights, shard = (_knobs(BUILT_IN, path, [_in(phase)], 100 * MIB) for path in paths)
    assert weights.warm_rank < shard.warm_rank
    assert weights.weight > shard.weight


def test_of_the_built_in_rules_checkpoints_come_first_only_when_a_run_begins() -> None:
    path = "last.ckpt"
    ranks = [
        _knobs(BUILT_IN, path, [_in(phase)]).warm_rank
        for phase in (TrainingPhase.INITIALIZATION, TrainingPhase.TRAINING)
    ]
    assert ranks == [1, 2]


def test_of_the_built_in_rules_validation_files_come_unasked_while_somebody_trains() -> None:
    phases = [TrainingPhase.INITIALIZATION, TrainingPhase.TRAINING, TrainingPhase.INFERENCE]
    assert [_knobs(BUILT_IN, "val/1.jpg", [_in(phase)]).unasked for phase in phases] == [False, True, False]
    assert not _knobs(BUILT_IN, "train/1.jpg", [_in(TrainingPhase.TRAINING)]).unasked


def test_the_template_for_several_nodes_divides_what_is_cold() -> None:
    head = "apiVersion: stoker.dev/v1alpha1\nkind: TuningProfile\nmetadata: {name: mine}\n"
    choice = TuningChoice(tuple(read_profile(head + "spec: {use: [{template: distributed_training}]}").rules))
    assert _knobs(choice, "train/1.jpg").divided  # while its workers are gated
    assert _knobs(choice, "train/1.jpg", [_in(TrainingPhase.TRAINING)]).ahead_files == 512
    assert _knobs(choice, "val/1.jpg", [_in(TrainingPhase.TRAINING)]).unasked


def test_a_rule_about_all_files_tells_validation_files_apart() -> None:
    grouping = FileGrouping(CompiledChoice(TuningChoice((_rule("all", "validation_ahead", True),))), NOBODY)
    numbers = [grouping.number(path, 1) for path in ("train/1", "val/1", "train/2")]
    assert [grouping.knobs[number].unasked for number in numbers] == [False, True, False]


def test_of_two_workloads_the_one_that_wants_more_is_heeded() -> None:
    training = _condition(ConditionScope.WORKLOAD_CONTEXT, "phase", "Training")
    choice = TuningChoice((_rule("deep", "prefetch_depth", 500, training),))
    assert _knobs(choice, "a", [_in(TrainingPhase.TRAINING), _in(TrainingPhase.VALIDATION)]).ahead_files == 500


def test_a_phase_of_which_no_rule_speaks_leads_to_the_same() -> None:
    rules = CompiledChoice(BUILT_IN)
    assert rules.for_nobody_but([_in(TrainingPhase.VALIDATION)]) == rules.for_nobody_but(NOBODY)
    assert rules.for_nobody_but([_in(TrainingPhase.INFERENCE)]) != rules.for_nobody_but(NOBODY)


def test_more_groups_than_a_byte_tells_apart_leave_files_as_ever_and_are_counted() -> None:
    rules = tuple(_rule(f"r{number}", "prefetch_depth", number, _glob(f"{number}/*")) for number in range(300))
    grouping = FileGrouping(CompiledChoice(TuningChoice(rules)), NOBODY)
    numbers = [grouping.number(f"{number}/file", 1) for number in range(300)]
    assert (len(grouping.knobs), max(numbers)) == (MOST_GROUPS, MOST_GROUPS - 1)
    assert grouping.left_as_ever == numbers.count(0) == 300 - (MOST_GROUPS - 1)


@settings(max_examples=50)
@given(paths=st.lists(st.text(max_size=40), max_size=30), phase=st.sampled_from(TrainingPhase))
def test_any_names_have_a_group(paths: list[str], phase: TrainingPhase) -> None:
    grouping = FileGrouping(CompiledChoice(BUILT_IN), [_in(phase)])
    assert all(0 <= grouping.number(path, 100 * MIB) < len(grouping.knobs) for path in paths)

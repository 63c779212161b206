"""Tuning figures of a node: summed over versions, bounded, rules for most files first."""

from stoker_api.profiles.tuning import MOST_TUNING_ROWS
from stoker_sidecar.agent.learning.node_rules import RuleMemory, rule_figures
from stoker_sidecar.tuning.source import TuningChoice
from stoker_sidecar.tuning.tuner import RuleCounts, TuningInForce


def in_force(profile: str, *rules: RuleCounts) -> TuningInForce:
    return TuningInForce(TuningChoice(profile=profile), rules)


def test_versions_of_one_profile_are_summed() -> None:
    versions = [in_force("fast", RuleCounts("shards", 3, 1)), in_force("fast", RuleCounts("shards", 4, 2))]
    (row,) = rule_figures(versions, {("fast", "shards"): 5, ("", "shards"): 1})
    assert (row.profile, row.rule, row.matched, row.acted, row.helped) == ("fast", "shards", 7, 3, 5)


def test_rules_of_one_name_in_two_profiles_stay_apart() -> None:
    rows = rule_figures([in_force("", RuleCounts("a", 1, 0)), in_force("fast", RuleCounts("a", 2, 0))], {})
    assert [(row.profile, row.matched) for row in rows] == [("fast", 2), ("", 1)]


def test_those_that_apply_most_often_are_told() -> None:
    rows = rule_figures([in_force("fast", *(RuleCounts(f"r{number:03}", number, 0) for number in range(200)))], {})
    assert (len(rows), rows[0].rule) == (MOST_TUNING_ROWS, "r199")


SET, OTHER = ("set", "v1"), ("other", "v1")


class Chosen:
    """A TuningSource that gives every Dataset one profile."""

    profile = "fast"

    def choice(self, dataset_uid: str) -> TuningChoice:
        return TuningChoice(profile=self.profile)


def test_what_rules_came_to_is_told_after_a_version_is_whole() -> None:
    memory, now = RuleMemory(Chosen()), in_force("fast", RuleCounts("shards", 3, 3))
    memory.of({SET: now}, {"set"})
    assert memory.of({}, {"set"}) == (now,)


def test_the_rules_of_another_profile_are_forgotten() -> None:
    source = Chosen()
    memory = RuleMemory(source)
    memory.of({SET: in_force("fast", RuleCounts("shards", 3, 3))}, {"set"})
    source.profile = "careful"
    assert memory.of({}, {"set"}) == ()


def test_a_dataset_that_is_not_here_any_more_is_forgotten() -> None:
    memory, other = RuleMemory(Chosen()), in_force("fast", RuleCounts("shards", 4, 4))
    memory.of({SET: in_force("fast", RuleCounts("shards", 3, 3)), OTHER: other}, {"set", "other"})
    assert memory.of({}, {"other"}) == (other,)


def test_no_more_than_a_thousand_versions_are_remembered() -> None:
    memory = RuleMemory(Chosen())
    memory.of({("set", f"v{number}"): in_force("fast") for number in range(1500)}, {"set"})
    assert len(memory.of({}, {"set"})) == 1000

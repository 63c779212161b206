"""The status of a TuningProfile, from reports of nodes and statuses of Datasets."""

from typing import Any

from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.profiles.tuning import NodeProfile, NodeRuleFigures, RuleFigures
from stoker_api.profiles.tuningprofile import TuningProfileStatus
from stoker_operator.core.status.profile_status import (
    ProfileUse,
    pause_before,
    profile_announcements,
    profile_uses,
    roll_up_profile,
)
from tests.unit.stoker_operator.builders import NOW, condition, make_dataset
from tests.unit.stoker_operator.profiles import BAD, profile


def cache(name: str, *profiles: NodeProfile, rules: tuple[NodeRuleFigures, ...] = ()) -> NodeCache:
    status = {"tuningProfiles": [row.wire() for row in profiles], "tuning": [row.wire() for row in rules]}
    base = {"namespace": "n", "name": "d", "uid": "d", "source": {"uri": "s3://b/"}}
    given = [
        base | {"tuning": {"profile": one}}
        for one in {row.profile for row in profiles} | {row.profile for row in rules}
    ]
    return NodeCache.model_validate({"metadata": {"name": name}, "spec": {"datasets": given}, "status": status})


def rolled_up(use: ProfileUse | None = None, spec: Any = None, **fields: Any) -> TuningProfileStatus:
    view = profile(spec=spec, generation=fields.pop("generation", 1), **fields)
    return roll_up_profile(view, use or ProfileUse(), is_default=False, enabled=True, now=NOW)


def test_it_says_where_it_is_and_what_came_of_its_rules() -> None:
    figures = [NodeRuleFigures(profile="fast", rule="shards", matched=5, acted=2, helped=1)] * 2
    caches = {
        name: cache(name, NodeProfile(profile="fast", generation=1, datasets=1), rules=(figures[0],))
        for name in ("a", "b")
    }
    datasets = {"vision/imagenet": make_dataset(status={"tuning": {"profile": "fast"}}), "vision/b": make_dataset("b")}
    status = rolled_up(profile_uses(caches, datasets)["fast"])
    assert (status.node_count, status.dataset_count, status.datasets) == (2, 1, ("vision/imagenet",))
    assert [(row.rule, row.matched, row.acted, row.helped) for row in status.rules] == [("shards", 10, 4, 2)]
    assert (status.rule_count, status.templates, status.accepted_generation) == (1, ("mine",), 1)


def test_nodes_that_are_behind_come_first_and_the_list_ends() -> None:
    good = {f"n{number:03}": cache("", NodeProfile(profile="fast", generation=2)) for number in range(100)}
    behind = {"z": cache("z", NodeProfile(profile="fast", generation=1, message="generation 2 cannot be read"))}
    status = rolled_up(profile_uses(good | behind, {})["fast"], generation=2)
    assert (status.node_count, len(status.nodes), status.nodes[0].name) == (101, 50, "z")


def test_one_that_cannot_be_read_says_what_stays_in_force() -> None:
    status = rolled_up(spec=BAD, generation=3, acceptedGeneration=2, ruleCount=7)
    accepted = condition(status, ConditionType.ACCEPTED)
    assert (accepted.status, accepted.reason) == ("False", Reason.PROFILE_INVALID)
    assert accepted.message.endswith("; generation 2 stays in force")
    assert (status.accepted_generation, status.rule_count) == (2, 7)


def test_what_moves_by_itself_waits_for_as_long_as_it_takes_to_send_the_object_to_all_nodes() -> None:
    old = rolled_up()
    there = old.model_copy(update={"node_count": 1})
    figures = old.model_copy(update={"rules": (RuleFigures(rule="shards", matched=1),)})
    assert pause_before(old, rolled_up(spec=BAD, generation=2), 1_000_000, 1000) == 0
    assert (pause_before(old, there, 10_000, 10), pause_before(old, figures, 10_000, 10)) == (5, 60)
    assert pause_before(old, there, 500_000, 2000) == pause_before(old, figures, 500_000, 2000) == 1000


def test_acceptance_is_told_once_a_generation() -> None:
    first = rolled_up()
    assert [one.type for one in profile_announcements(TuningProfileStatus(), first)] == ["Normal"]
    assert list(profile_announcements(first, first)) == []
    worse = rolled_up(spec=BAD, generation=2)
    assert [one.type for one in profile_announcements(first, worse)] == ["Warning"]


def test_a_node_that_counts_beyond_all_bounds_leaves_a_status_that_can_be_written() -> None:
    rules = (NodeRuleFigures(profile="fast", rule="shards", matched=2**63 - 1, acted=-5),)
    status = rolled_up(profile_uses({"a": cache("a", rules=rules), "b": cache("b", rules=rules)}, {})["fast"])
    assert (status.rules[0].matched, status.rules[0].acted) == (2**63 - 1, 0)

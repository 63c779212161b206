"""A group shuffle keeps few groups open, opens each about once, and mixes them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_client import GroupShuffleSampler
from tests.unit.stoker_client.samplers import Plan, plans


def fetched(groups: list[int], room: int) -> int:
    """Return the number of fetches with ``room`` groups in a cache that evicts the group with the latest next use."""
    later: dict[int, list[int]] = {}
    for at in range(len(groups) - 1, -1, -1):
        later.setdefault(groups[at], []).append(at)
    held: set[int] = set()
    count = 0
    for group in groups:
        later[group].pop()
        if group not in held:
            count += 1
            if len(held) >= room:
                held.remove(max(held, key=lambda one: later[one][-1] if later[one] else len(groups)))
            held.add(group)
    return count


def fetched_by_last_use(groups: list[int], room: int) -> int:
    """Return the number of fetches with ``room`` groups in an LRU cache."""
    held: dict[int, None] = {}
    count = 0
    for group in groups:
        if group not in held:
            count += 1
            if len(held) >= room:
                del held[next(iter(held))]
        held.pop(group, None)
        held[group] = None
    return count


@given(plans(("group",)).filter(lambda plan: plan.kind == "group"), st.integers(0, 5))
def test_room_for_the_reservoir_is_enough_to_read_each_group_once_but_for_the_ends(plan: Plan, epoch: int) -> None:
    for rank in range(plan.world_size):
        sampler = plan.make(rank, epoch)
        assert isinstance(sampler, GroupShuffleSampler)
        groups = [sampler.group_of(index) for index in sampler]
        places = min(plan.reservoir, len(groups))
        assert fetched(groups, plan.reservoir) <= len(set(groups)) + 2 * places + 1


def test_who_keeps_what_was_read_last_needs_room_for_two_reservoirs() -> None:
    sampler = GroupShuffleSampler(40_000, 16, reservoir=128, rank=0, world_size=1)
    groups = [sampler.group_of(index) for index in sampler]
    assert fetched_by_last_use(groups, 256) <= 2500 + 2 * 128
    assert fetched_by_last_use(groups, 128) > 2 * 2500


def test_neighbors_are_a_round_apart() -> None:
    order = list(GroupShuffleSampler(10_000, 10, reservoir=100, rank=0, world_size=1))
    assert not [pair for pair in pairwise(order) if pair[0] // 10 == pair[1] // 10 and abs(pair[0] - pair[1]) == 1][60:]


def test_groups_may_be_of_any_sizes() -> None:
    sampler = GroupShuffleSampler(60, [10, 1, 40, 9], reservoir=2, rank=0, world_size=1)
    assert sorted(sampler) == list(range(60))
    assert [sampler.group_of(index) for index in (0, 9, 10, 11, 50, 51, 59)] == [0, 0, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("groups", [0, -3, [], [5, 0], [3, 3]])
def test_groups_have_samples_and_together_all(groups: int | list[int]) -> None:
    with pytest.raises(ValueError, match="group"):
        GroupShuffleSampler(5, groups, rank=0, world_size=1)


def test_a_reservoir_has_a_place() -> None:
    with pytest.raises(ValueError, match="reservoir is 0"):
        GroupShuffleSampler(5, 2, reservoir=0, rank=0, world_size=1)


def test_another_division_into_groups_is_another_order() -> None:
    state = GroupShuffleSampler(10, [4, 6], rank=0, world_size=1).state_dict()
    with pytest.raises(ValueError, match="groups"):
        GroupShuffleSampler(10, [6, 4], rank=0, world_size=1).load_state_dict(state)

"""Each sampler: ranks share the epoch, epochs follow from seed and number, and a state resumes exactly."""

import json
import pickle
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_client import GlobalShuffleSampler, GroupShuffleSampler, QualityRatioSampler
from tests.support.cases import cases
from tests.unit.stoker_client.samplers import Plan, plans

WHOLE = ("global", "group", "warm")  # samplers whose epoch has every sample
epochs = st.integers(0, 12)


@given(plans(WHOLE), epochs)
def test_one_rank_alone_has_each_sample_once(plan: Plan, epoch: int) -> None:
    assert sorted(plan.alone().epoch(epoch)[0]) == list(range(plan.length))


@given(plans(WHOLE), epochs)
def test_ranks_together_have_each_sample_and_only_the_padding_twice(plan: Plan, epoch: int) -> None:
    counts = Counter(index for rank in replace(plan, drop_last=False).epoch(epoch) for index in rank)
    assert counts.keys() == set(range(plan.length))
    assert sum(counts.values()) - plan.length == -plan.length % plan.world_size


@given(plans(WHOLE), epochs)
def test_ranks_are_disjoint_where_the_last_ones_are_dropped(plan: Plan, epoch: int) -> None:
    counts = Counter(index for rank in replace(plan, drop_last=True).epoch(epoch) for index in rank)
    assert set(counts.values()) <= {1}
    assert len(counts) == plan.length - plan.length % plan.world_size


@given(plans(), epochs)
def test_all_ranks_have_as_many_as_they_say(plan: Plan, epoch: int) -> None:
    lengths = {len(plan.make(rank, epoch)) for rank in range(plan.world_size)}
    assert {len(rank) for rank in plan.epoch(epoch)} == lengths
    assert len(lengths) == 1


@given(plans(), epochs, st.data())
def test_a_state_goes_on_exactly_where_the_sampler_was(plan: Plan, epoch: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, plan.world_size - 1))
    first = plan.make(rank, epoch)
    done = data.draw(st.integers(0, len(first)))
    begun = list(islice(iter(first), done))
    state = json.loads(json.dumps(first.state_dict()))
    # The set of warm files has changed. The epoch continues as it began.
    second = replace(plan, warm=None if plan.warm is None else lambda _: bool(epoch % 2)).make(rank)
    second.load_state_dict(state)
    second.set_epoch(epoch)
    whole = plan.epoch(epoch)[rank]
    if done or plan.warm is None:
        assert begun + list(second) == whole
    second.set_epoch(epoch + 1)
    assert len(list(second)) == len(second)


@given(plans(), epochs, st.data())
def test_a_state_of_what_was_trained_on_goes_on_from_there(plan: Plan, epoch: int, data: st.DataObject) -> None:
    first = plan.make(0, epoch)
    whole = list(first)  # the workers of a DataLoader have taken all of them
    trained = data.draw(st.integers(1, len(whole))) if whole else 0
    second = plan.make(0)
    second.load_state_dict(first.state_dict(consumed=trained))
    assert list(second) == whole[trained:]
    again = plan.make(0)
    again.load_state_dict(second.state_dict())
    assert list(again) == []


@given(plans(), epochs, st.data())
def test_a_state_that_is_loaded_after_iter_counts_for_that_iteration_alone(
    plan: Plan, epoch: int, data: st.DataObject
) -> None:
    plan = replace(plan, warm=None)
    first, second = plan.make(0, epoch), plan.make(0)
    done = data.draw(st.integers(0, len(first)))
    begun = list(islice(iter(first), done))
    walk = iter(second)
    second.load_state_dict(first.state_dict())
    assert begun + list(walk) == plan.epoch(epoch)[0]
    for _ in range(2):
        assert list(second) == plan.epoch(epoch)[0]


@given(plans(), st.data())
def test_a_state_outlasts_iterations_that_yielded_nothing(plan: Plan, data: st.DataObject) -> None:
    first, second = plan.make(), plan.make()
    done = data.draw(st.integers(1, max(1, len(first))))
    list(islice(iter(first), done))
    second.load_state_dict(first.state_dict())
    iter(second)
    assert second.state_dict()["position"] == first.state_dict()["position"]
    assert list(second) == plan.epoch(0)[0][done:]


@pytest.mark.parametrize("begin", ["load", "iterate", "set_epoch"])
def test_an_older_iteration_moves_no_position(begin: str) -> None:
    sampler = Plan("global", 10, 0, 1).make()
    old = iter(sampler)
    next(old)
    if begin == "load":
        sampler.load_state_dict({**sampler.state_dict(), "position": 4})
    elif begin == "set_epoch":
        sampler.set_epoch(1)
    else:
        iter(sampler)
    before = sampler.state_dict()
    next(old)
    assert sampler.state_dict() == before


@given(plans(("global",)), epochs, st.integers(1, 5), st.data())
def test_a_world_of_another_size_has_what_was_left_of_the_epoch(
    plan: Plan, epoch: int, size: int, data: st.DataObject
) -> None:
    before = replace(plan, drop_last=False)
    done = data.draw(st.integers(0, plan.length // plan.world_size))
    ranks = [before.make(rank, epoch) for rank in range(plan.world_size)]
    seen = Counter(index for rank in ranks for index in islice(iter(rank), done))
    for rank in range(size):
        sampler = replace(before, world_size=size).make(rank)
        sampler.load_state_dict(ranks[0].state_dict(consumed=done))
        seen.update(sampler)
    left = plan.length - done * plan.world_size
    assert seen.keys() == set(range(plan.length))
    assert sum(seen.values()) - plan.length == -left % size


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {tuple(Plan("global", 50, seed, 1).epoch(epoch)[0]) for seed in (1, 2) for epoch in (0, 1)}
    assert len(orders) == 4


def test_an_iteration_that_was_broken_off_begins_anew() -> None:
    sampler = Plan("global", 50, 1, 1).make()
    assert list(islice(iter(sampler), 7)) + list(sampler)[7:] == list(sampler)


def test_a_dataset_is_taken_for_its_length() -> None:
    assert sorted(GlobalShuffleSampler("abc", rank=0, world_size=1)) == [0, 1, 2]


def test_the_place_is_that_of_the_moment_at_which_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = GlobalShuffleSampler(10)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert list(sampler) == list(GlobalShuffleSampler(10, rank=1, world_size=3))
    copied = pickle.loads(pickle.dumps(sampler))
    monkeypatch.delenv("RANK")
    assert (sampler.rank, sampler.world_size) == (0, 1)
    assert (copied.rank, copied.world_size) == (1, 3)  # a worker process gets the rank of its main process


def test_a_copy_that_is_made_before_the_place_is_known_finds_it_where_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied = pickle.loads(pickle.dumps(GlobalShuffleSampler(10)))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert (copied.rank, copied.world_size) == (1, 3)


def test_a_ratio_that_leaves_a_rank_without_samples_is_refused_when_the_ranks_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sampler = QualityRatioSampler(10, 0.3)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ValueError, match="less than one for each of 4 ranks"):
        len(sampler)


@pytest.mark.parametrize("names", [("RANK", "WORLD_SIZE"), ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES")])
def test_rank_and_world_size_are_those_of_the_environment(
    names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names[0], "1")
    monkeypatch.setenv(names[1], "3")
    assert list(GlobalShuffleSampler(10)) == list(GlobalShuffleSampler(10, rank=1, world_size=3))


def test_without_a_world_a_sampler_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "first")
    assert len(GlobalShuffleSampler(10)) == 10


@cases(
    "options, sentence",
    ({"data": 0}, "at least one"),
    ({"data": 5, "rank": 2, "world_size": 2}, "ranks are from 0 to 1"),
    ({"data": 5, "rank": 1}, "give both, or neither"),
)
def test_what_makes_no_sampler_is_refused_with_a_sentence(options: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        GlobalShuffleSampler(**options)  # type: ignore[arg-type]


@cases(
    "other, sentence",
    (GlobalShuffleSampler(9, rank=0, world_size=1), "length is 10"),
    (GlobalShuffleSampler(10, seed=3, rank=0, world_size=1), "seed is 0"),
    (GroupShuffleSampler(10, 2, rank=0, world_size=1), "sampler is 'global-shuffle'"),
)
def test_a_state_of_another_order_is_refused(other: GlobalShuffleSampler, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        other.load_state_dict(GlobalShuffleSampler(10, rank=0, world_size=1).state_dict())


def test_an_epoch_in_groups_does_not_go_on_with_other_ranks() -> None:
    state = GroupShuffleSampler(10, 2, rank=0, world_size=2).state_dict(consumed=3)
    with pytest.raises(ValueError, match="state belongs to 2 ranks in the middle of an epoch, and the job has 1"):
        GroupShuffleSampler(10, 2, rank=0, world_size=1).load_state_dict(state)


@pytest.mark.parametrize(("name", "value"), [("position", -1), ("epoch", None), ("world_size", "2"), ("base", 1.5)])
def test_a_state_that_no_sampler_made_is_refused(name: str, value: object) -> None:
    sampler = GlobalShuffleSampler(10, rank=0, world_size=1)
    with pytest.raises(ValueError, match=f"the state's {name} is {value!r}"):
        sampler.load_state_dict({**sampler.state_dict(), name: value})


def test_no_one_can_have_trained_on_more_than_there_is() -> None:
    with pytest.raises(ValueError, match="consumed is 11"):
        GlobalShuffleSampler(10, rank=0, world_size=1).state_dict(consumed=11)


@pytest.mark.parametrize("ratio", [0, -1, 1.1, 0.0001])
def test_a_ratio_is_a_share(ratio: float) -> None:
    with pytest.raises(ValueError, match="ratio is"):
        QualityRatioSampler(10_000, ratio, rank=0, world_size=1)


def test_a_share_has_a_sample_for_each_rank() -> None:
    with pytest.raises(ValueError, match="less than one for each of 4 ranks"):
        QualityRatioSampler(10, 0.3, rank=0, world_size=4)

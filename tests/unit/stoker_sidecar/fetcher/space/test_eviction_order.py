"""Idle versions to evict: pure decisions over any set of versions."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_sidecar.fetcher.space.room import Asker, Idle, may_return, victims

ASKER = Asker("asker", priority=0, held=True)
OLD = Idle("old", "d", 100, 0, used_at=1.0)
NEW = Idle("new", "d", 100, 0, used_at=2.0)

idles = st.lists(
    st.builds(
        Idle,
        uid=st.sampled_from(["asker", "a", "b", "c", "d"]),
        digest=st.sampled_from(["1", "2"]),
        size=st.integers(0, 100),
        priority=st.integers(-2, 2),
        used_at=st.floats(0, 100),
        pinned=st.booleans(),
        busy=st.booleans(),
        current=st.booleans(),
    ),
    unique_by=lambda idle: (idle.uid, idle.digest),
)
askers = st.builds(Asker, st.just("asker"), st.integers(-2, 2), st.booleans())


def test_the_least_recently_used_goes_first() -> None:
    assert victims(50, ASKER, [NEW, OLD]) == (OLD,)


def test_as_many_go_as_are_needed() -> None:
    assert victims(150, ASKER, [NEW, OLD]) == (OLD, NEW)


def test_an_older_version_goes_before_any_whole_dataset() -> None:
    stale = replace(NEW, digest="e", current=False, used_at=9.0)
    assert victims(50, ASKER, [OLD, NEW, stale]) == (stale,)


def test_older_versions_of_the_asker_itself_go_too() -> None:
    own = Idle("asker", "e", 100, 0, used_at=9.0, current=False, pinned=True)
    assert victims(50, ASKER, [own]) == (own,)


def test_small_ones_stay_when_a_large_one_is_enough() -> None:
    small, large = replace(OLD, size=10), replace(NEW, size=200)
    assert victims(150, ASKER, [small, large]) == (large,)


def test_a_dataset_that_no_pod_uses_only_drives_out_lower_priorities() -> None:
    idle_asker, lower = Asker("asker", priority=1, held=False), replace(OLD, priority=0)
    equal = replace(NEW, priority=1)
    assert victims(50, idle_asker, [equal]) == ()
    assert victims(50, idle_asker, [equal, lower]) == (lower,)


@settings(max_examples=60)
@given(st.integers(0, 300), askers, idles)
def test_nothing_that_is_busy_or_pinned_or_of_higher_priority_ever_goes(
    need: int, asker: Asker, versions: list[Idle]
) -> None:
    for victim in victims(need, asker, versions):
        assert not victim.busy
        if victim.uid != asker.uid:
            assert not victim.pinned
            assert victim.priority < asker.priority + asker.held


@given(st.integers(1, 300), askers, idles)
def test_victims_free_enough_or_none_and_no_victim_is_needless(need: int, asker: Asker, versions: list[Idle]) -> None:
    chosen = victims(need, asker, versions)
    total = sum(victim.size for victim in chosen)
    assert not chosen or total >= need
    assert all(total - victim.size < need for victim in chosen)


@given(st.integers(1, 300), askers, idles)
def test_an_evicted_version_does_not_fit_next_to_its_successor(need: int, asker: Asker, versions: list[Idle]) -> None:
    """No ping-pong: the asker takes all free room and ``need`` of the room of the victims.

    No victim may return into the rest.
    """
    chosen = victims(need, asker, versions)
    left = sum(victim.size for victim in chosen) - need
    assert not any(may_return(victim.size, left, held=False, pinned=False) for victim in chosen)


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_dataset_that_is_used_always_returns(need: int, free: int) -> None:
    assert may_return(need, free, held=True, pinned=False)

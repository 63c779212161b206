"""The memory limit of Datasets, their shares of it, and the time of the next check."""

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_sidecar.fetcher.node.memory_shares import (
    PinRoom,
    PinWish,
    ReclaimCounters,
    fair_shares,
    is_sweep_due,
    parse_reclaim,
    parts_of,
    pin_room,
    steady_room,
)
from stoker_sidecar.fetcher.pages.core.page_room import MemoryFigures
from tests.support.cases import cases

GIB = 2**30
PLENTY = MemoryFigures(64 * GIB, 48 * GIB)
_AMOUNTS = st.integers(0, 100 * GIB)
_WISHES = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=4),
    st.builds(PinWish, st.sampled_from(["a", "b", "c"]), _AMOUNTS, _AMOUNTS),
    max_size=12,
)


@cases(
    "memory, allowed, pinned, room, why",
    (PLENTY, 0, 0, 0, "set sidecar.memory.pinned"),
    (PLENTY, 20 * GIB, 0, 20 * GIB, "sidecar.memory.pinned"),
    (PLENTY, 40 * GIB, 20 * GIB, 32 * GIB, "half of the node's memory"),
    (
        MemoryFigures(64 * GIB, 48 * GIB, limit=9 * GIB, bound=GIB),
        20 * GIB,
        0,
        6 * GIB,
        "the sidecar's memory limit",
    ),
    (MemoryFigures(64 * GIB, 48 * GIB, limit=GIB, bound=2 * GIB), 20 * GIB, 0, 0, "the sidecar's memory limit"),
    (MemoryFigures(100 * GIB, 20 * GIB), 40 * GIB, 0, 5 * GIB, "short of memory"),
    (MemoryFigures(100 * GIB, 12 * GIB), 40 * GIB, 7 * GIB, 7 * GIB, "short of memory"),
    (MemoryFigures(100 * GIB, 5 * GIB), 40 * GIB, 30 * GIB, 20 * GIB, "short of memory"),
    (MemoryFigures(100 * GIB, 5 * GIB), 40 * GIB, GIB, 0, "short of memory"),
)
def test_the_room_for_pins_names_its_tightest_bound(
    memory: MemoryFigures, allowed: int, pinned: int, room: int, why: str
) -> None:
    found = pin_room(memory, allowed, pinned)
    assert found.bytes == room
    assert why in found.why


def test_a_room_that_hardly_moves_stays_as_it_was() -> None:
    before = PinRoom(100, "before")
    assert steady_room(PinRoom(96, "now"), before) == before
    assert steady_room(PinRoom(90, "now"), before) == PinRoom(90, "now")


def test_many_datasets_of_one_namespace_get_no_more_than_one_of_another() -> None:
    wishes = {f"many{n}": PinWish("greedy", contents=50) for n in range(9)} | {"one": PinWish("modest", contents=50)}
    shares = fair_shares(90, wishes)
    assert shares["one"] == 45
    assert sum(shares.values()) == 90


def test_unused_parts_of_a_share_go_to_larger_wishes() -> None:
    wishes = {"small": PinWish("a", contents=10), "large": PinWish("b", contents=500)}
    assert fair_shares(100, wishes) == {"small": 10, "large": 90}


@given(room=_AMOUNTS, wishes=_WISHES)
def test_shares_are_within_the_room_and_the_wishes(room: int, wishes: dict[str, PinWish]) -> None:
    shares = fair_shares(room, wishes)
    assert shares.keys() == wishes.keys()
    assert all(0 <= share <= wishes[uid].bytes for uid, share in shares.items())
    assert sum(shares.values()) <= room


@given(room=_AMOUNTS, wishes=_WISHES)
def test_no_room_stays_unused_while_a_wish_is_unmet(room: int, wishes: dict[str, PinWish]) -> None:
    assert sum(fair_shares(room, wishes).values()) == min(room, sum(wish.bytes for wish in wishes.values()))


@settings(max_examples=50)
@given(share=_AMOUNTS, names=_AMOUNTS, contents=_AMOUNTS)
def test_a_share_is_for_names_first(share: int, names: int, contents: int) -> None:
    for_names, for_contents = parts_of(share, PinWish("a", names, contents))
    assert for_names == min(names, share)
    assert for_contents == min(contents, share - for_names)


def test_what_the_kernel_took_back_is_read_from_its_counters() -> None:
    text = "pgsteal_file 5\ndrop_pagecache 2\npginodesteal 1\nkswapd_inodesteal 3\ndrop_slab 4\nnr_dirty 9\n"
    assert parse_reclaim(text) == ReclaimCounters(pages=7, names=8)


def test_a_kernel_without_counters_has_unknown_counts() -> None:
    assert parse_reclaim("") == ReclaimCounters(-1, -1)


@cases("since, before, now, due", (60, 1, 2, True), (60, 2, 2, False), (59, 1, 2, False), (60, -1, -1, True))
def test_what_is_watched_is_looked_at_when_the_kernel_took_something(
    since: float, before: int, now: int, due: bool
) -> None:
    assert is_sweep_due(since, before, now) is due

"""What lives long is not looked at again."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from stoker_operator import garbage


class Node:
    """Something that may refer to itself."""

    other: object


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_is_left_of_what_was_new_is_set_aside() -> None:
    kept = [Node() for _ in range(1000)]
    garbage.set_aside()
    assert gc.get_freeze_count() >= len(kept)


def test_a_cycle_that_nobody_has_is_found_before_it_is_set_aside() -> None:
    gc.collect()
    node = Node()
    node.other = node
    gone = weakref.ref(node)
    del node
    garbage.set_aside()
    assert gone() is None


def test_a_cycle_that_was_in_use_for_some_time_is_found_before_it_is_set_aside() -> None:
    garbage.set_aside()
    node = Node()
    node.other = node
    gone = weakref.ref(node)
    gc.collect(0)
    gc.collect(1)  # old for Python now
    del node
    gc.collect(1)
    assert gone() is not None
    garbage.set_aside()
    assert gone() is None


def test_a_look_at_everything_finds_a_cycle_that_was_set_aside() -> None:
    node = Node()
    node.other = node
    gone = weakref.ref(node)
    garbage.set_aside()
    del node
    garbage.set_aside()
    assert gone() is not None
    garbage.look_at_everything()
    assert gone() is None


MIB = 2**20


@pytest.mark.parametrize(
    ("before", "now", "grown"),
    [
        (600 * MIB, 600 * MIB, False),
        (600 * MIB, 740 * MIB, False),
        (600 * MIB, 760 * MIB, True),
        (50 * MIB, 140 * MIB, False),
    ],
)
def test_everything_is_looked_at_when_much_more_is_held_than_before(before: int, now: int, grown: bool) -> None:
    assert garbage.has_grown(before, now) is grown


def test_everything_is_not_looked_at_by_itself() -> None:
    garbage.begin()
    assert gc.get_threshold()[2] > 100_000


def test_what_is_looked_at_by_itself_is_some_thousand_objects() -> None:
    garbage.begin()
    youngest, younger, _ = gc.get_threshold()
    assert youngest * (younger + 1) < 5_000

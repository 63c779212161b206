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


def test_everything_is_not_looked_at_by_itself() -> None:
    garbage.begin()
    assert gc.get_threshold()[2] > 100_000

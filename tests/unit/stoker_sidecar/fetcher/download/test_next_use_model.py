"""The optimum of eviction if each epoch reads every file once: it is no better than keeping the first files."""

import random

import pytest

from tests.support.next_use_model import hits_by_next_use

FILES, EPOCHS = 300, 6


def _epochs(ranks: int = 1) -> list[list[int]]:
    """Return the share of the first of ``ranks`` of a new random order for each epoch."""
    chance = random.Random(7)
    return [chance.sample(range(FILES), FILES)[::ranks] for _ in range(EPOCHS)]


def test_an_example_by_hand() -> None:
    assert hits_by_next_use([[1, 2, 3], [3, 1, 2]], 1) == [0, 1]
    assert hits_by_next_use([[1, 2, 3], [1, 2, 3]], 2) == [0, 2]


@pytest.mark.parametrize("share", [0.1, 1 / 3, 0.5])
def test_of_whole_epochs_who_knows_the_future_hits_no_more_than_who_keeps_what_came_first(share: float) -> None:
    """A hit must be in the cache when the epoch begins, and each file is hit once. So there are as many hits as fit."""
    room = round(share * FILES)
    assert hits_by_next_use(_epochs(), room)[1:] == [room] * (EPOCHS - 1)


@pytest.mark.parametrize(("share", "at_least"), [(0.1, 1.8), (0.25, 1.8)])
def test_where_a_node_reads_another_part_each_epoch_it_hits_more(share: float, at_least: float) -> None:
    """Only the cached files of the next epoch are useful. Knowing them is worth twice the room."""
    epochs, room = _epochs(ranks=4), round(share * FILES)
    kept = set(list(dict.fromkeys(file for epoch in epochs for file in epoch))[:room])
    came_first = sum(file in kept for epoch in epochs[2:] for file in epoch)
    assert sum(hits_by_next_use(epochs, room)[2:]) >= at_least * came_first

"""Room is divided equally."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.wire.dataset_texts import fair_shares
from tests.support.cases import cases


@cases(
    "demands, room, shares",
    ({}, 10, {}),
    ({"a": 5}, 10, {"a": 5}),
    ({"a": 50, "b": 2}, 10, {"a": 8, "b": 2}),
    ({"a": 50, "b": 50, "c": 2}, 10, {"a": 4, "b": 4, "c": 2}),
    ({"a": 5}, -1, {"a": 0}),
)
def test_room_is_divided_equally_and_unused_parts_go_to_the_others(
    demands: dict[str, int], room: int, shares: dict[str, int]
) -> None:
    assert fair_shares(demands, room) == shares


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 1000), min_size=1), st.integers(0, 5000))
def test_an_owner_that_asks_for_no_more_than_an_equal_part_gets_it(demands: dict[str, int], room: int) -> None:
    shares = fair_shares(demands, room)
    assert sum(shares.values()) <= room
    assert all(shares[owner] == asked for owner, asked in demands.items() if asked <= room // len(demands))

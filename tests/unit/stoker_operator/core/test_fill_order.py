"""The order in which nodes get new replicas."""

from collections.abc import Iterable, Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_operator.core.placement.fill_order import FillOrders, fresh_rank
from stoker_operator.core.placement.node_promises import LastRoom, NodePromises
from stoker_operator.core.placement.node_room import Selection, Selections
from stoker_operator.core.views.cluster import Taint
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import NOW, make_cache, make_dataset, make_node, make_view

_NODES = "abcdefgh"
_LATE = (Taint("spot", "", "PreferNoSchedule"),)


def _selection(rooms: Mapping[str, int], late: Iterable[str] = ()) -> tuple[Selection, LastRoom]:
    nodes = [make_node(name, taints=_LATE if name in late else ()) for name in rooms]
    view = make_view(*nodes, *(make_cache(name, room=room) for name, room in rooms.items()))
    promises = NodePromises({})
    for name, room in rooms.items():
        promises.set_base(name, room)
    return Selections(view, NOW).of(make_dataset()), LastRoom(promises)


def _plainly_first(selection: Selection, room: LastRoom, count: int, need: int, but: Iterable[str]) -> list[str]:
    def rank(name: str) -> tuple[object, ...]:
        one, fits = fresh_rank(selection, room, name), room.fits(name, need)
        return (not fits, one.tainted, one.given if fits else 0, one.taken, name)

    return sorted(selection.fresh.difference(but), key=rank)[:count]


@cases(
    "rooms, chosen",
    the_freest_first=({"a": 10, "b": 30, "c": 20}, ["b", "c", "a"]),
    those_without_room_last=({"a": 10, "b": 4, "c": 20}, ["c", "a", "b"]),
)
def test_nodes_come_by_their_room(rooms: dict[str, int], chosen: list[str]) -> None:
    selection, room = _selection(rooms)
    assert FillOrders(room).of(selection).first(3, 5, ()) == chosen


def test_a_node_that_was_given_something_meanwhile_goes_back() -> None:
    selection, room = _selection({"a": 10, "b": 30, "c": 20})
    order = FillOrders(room).of(selection)
    order.first(1, 5, ())
    room.charge("b", 1)
    assert order.first(3, 5, ()) == ["c", "a", "b"]


def test_one_order_is_kept_for_all_datasets_of_a_selection() -> None:
    selection, room = _selection({"a": 10})
    orders = FillOrders(room)
    assert orders.of(selection) is orders.of(selection)


_ASKED = st.tuples(st.integers(0, 9), st.integers(0, 40), st.sets(st.sampled_from(_NODES)))


@settings(max_examples=50)
@given(
    rooms=st.dictionaries(st.sampled_from(_NODES), st.integers(0, 40), min_size=1),
    late=st.sets(st.sampled_from(_NODES)),
    asked=st.lists(_ASKED, max_size=8),
)
def test_the_order_equals_that_of_a_full_sort(
    rooms: dict[str, int], late: set[str], asked: list[tuple[int, int, set[str]]]
) -> None:
    selection, room = _selection(rooms, late)
    order = FillOrders(room).of(selection)
    for count, need, but in asked:
        chosen = order.first(count, need, but)
        assert chosen == _plainly_first(selection, room, count, need, but)
        for name in chosen:
            room.charge(name, need)

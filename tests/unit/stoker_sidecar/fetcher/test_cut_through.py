"""Which nodes take a piece from another one while it comes to it."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.core.cut_through import is_relayed

NODES = st.integers(2, 16)


@given(nodes=NODES, data=st.data())
def test_a_node_gives_what_comes_to_it_to_no_more_than_its_line_carries(nodes: int, data: st.DataObject) -> None:
    giver, fetching = data.draw(st.integers(0, nodes - 1)), data.draw(st.integers(0, nodes))
    takers = [taker for taker in range(nodes) if is_relayed(giver, taker, nodes, fetching)]
    assert giver not in takers
    assert len(takers) == min(nodes - 1, max(1, fetching))


@given(nodes=NODES, data=st.data())
def test_while_all_fetch_each_takes_from_all(nodes: int, data: st.DataObject) -> None:
    taker = data.draw(st.integers(0, nodes - 1))
    assert all(is_relayed(giver, taker, nodes, nodes) for giver in range(nodes) if giver != taker)

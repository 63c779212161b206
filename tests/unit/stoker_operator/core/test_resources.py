"""Amounts of resources: how many pods fit, and which of two amounts is larger."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_operator.core.views.resources import Resources

AMOUNTS = st.builds(
    Resources,
    st.integers(-5, 50),
    st.integers(-5, 50),
    st.integers(-5, 50),
    st.dictionaries(st.sampled_from(["gpu", "rdma"]), st.integers(-5, 50)),
)
REQUESTS = st.builds(
    Resources,
    st.integers(0, 5),
    st.integers(0, 5),
    st.integers(0, 1),
    st.dictionaries(st.sampled_from(["gpu", "rdma"]), st.integers(0, 5)),
)


@given(AMOUNTS, REQUESTS, st.integers(0, 60))
def test_as_many_fit_as_would_one_after_the_other(free: Resources, request: Resources, most: int) -> None:
    left, fitting = free, 0
    while fitting < most and left.covers(request):
        left, fitting = left.minus(request), fitting + 1

    assert free.room_for(request, most) == fitting
    if fitting:
        assert free.minus(request.times(fitting)) == left


@given(AMOUNTS, AMOUNTS)
def test_an_amount_exceeds_another_where_it_is_more_of_anything(one: Resources, other: Resources) -> None:
    difference = one.minus(other)
    parts = (difference.cpu_milli, difference.memory, difference.pods, *difference.extended.values())
    assert one.exceeds(other) is any(part > 0 for part in parts)

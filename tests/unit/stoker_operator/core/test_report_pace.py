"""The reporting interval of nodes depends on their number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.node_caches.nodecache import MOST_REPORT_SECONDS, REPORT_SECONDS
from stoker_operator.core.plans.report_pace import REPORTS_A_SECOND, report_seconds, report_step

SIZES = st.integers(0, 50_000)


@pytest.mark.parametrize(("nodes", "seconds"), [(0, 2), (40, 2), (41, 4), (1000, 64), (5000, 256)])
def test_a_node_of_a_larger_cluster_reports_less_often(nodes: int, seconds: int) -> None:
    assert report_step(nodes) == seconds


@given(nodes=SIZES, now=st.integers(0, 5000))
def test_all_nodes_together_keep_to_the_rate_whatever_they_were_told_before(nodes: int, now: int) -> None:
    told = report_seconds(nodes, now)
    assert nodes / told <= REPORTS_A_SECOND or told == REPORT_SECONDS
    assert nodes <= REPORTS_A_SECOND * REPORT_SECONDS or told <= 4 * nodes / REPORTS_A_SECOND
    assert REPORT_SECONDS <= told <= MOST_REPORT_SECONDS


@given(sizes=st.lists(st.integers(600, 680), min_size=2))
def test_a_cluster_that_grows_and_shrinks_a_little_is_told_once_at_most(sizes: list[int]) -> None:
    told, changes = report_seconds(sizes[0], 0), 0
    for nodes in sizes[1:]:
        changes += report_seconds(nodes, told) != told
        told = report_seconds(nodes, told)
    assert changes <= 1

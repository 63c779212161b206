"""What a warm-up is expected to ask of its source, by what nodes give each other."""

from dataclasses import replace
from typing import Any

import pytest

from stoker_api.dataset_status import WarmForecast
from stoker_api.warm_paths import WarmPathsStatus
from stoker_operator.core.dataset_decision import decide_datasets
from stoker_operator.core.figures import add_up
from stoker_operator.core.nearness import ClusterNeighbours
from stoker_operator.core.warm_outlook import forecast_of
from tests.unit.stoker_operator.builders import NOW, SIZE, listed, make_dataset, make_node, make_view


def _forecast(cluster: ClusterNeighbours, part: WarmPathsStatus | None = None, **warm: Any) -> WarmForecast:
    """Return what is expected of a cold Dataset on two nodes; ``part``: of it is warmed alone."""
    dataset = listed(make_dataset(cache={"replicas": 2}, warm=warm))
    view = replace(make_view(dataset, make_node("a"), make_node("b")), neighbours=cluster)
    decision = decide_datasets(view, {}, NOW)
    plan = decision.plans[dataset.key]
    figures = add_up(plan, decision.states)
    found = forecast_of(view, plan, figures if part is None else replace(figures, limited=True, part=part))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("cluster", "dataset", "copies"), [(True, "Auto", 1), (True, "Off", 2), (False, "Auto", 2), (False, "Off", 2)]
)
def test_the_source_sends_one_copy_where_nodes_give_each_other_what_they_have(
    cluster: bool, dataset: str, copies: int
) -> None:
    assert _forecast(ClusterNeighbours(on=cluster), neighbours=dataset).origin_bytes == copies * SIZE


@pytest.mark.parametrize(("cluster", "copies"), [(True, 1), (False, 2)])
def test_of_a_part_it_is_the_same(cluster: bool, copies: int) -> None:
    part = WarmPathsStatus(digest="d", files=4, bytes=400)
    assert _forecast(ClusterNeighbours(on=cluster), part, paths=["train/"]).origin_bytes == copies * 400

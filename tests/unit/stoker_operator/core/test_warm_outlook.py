"""The forecast of the requests of a warm-up to its source, given the exchange between peers."""

from dataclasses import replace
from math import ceil
from typing import Any

import pytest

from stoker_api.datasets.dataset_status import WarmForecast
from stoker_api.datasets.warm_paths import WarmPathsStatus
from stoker_api.times import format_time
from stoker_operator.core.origins.origin_policy import CapLimits, OriginPolicy
from stoker_operator.core.peers.peer_groups import PeerSettings
from stoker_operator.core.status.figures import add_up
from stoker_operator.core.status.warm_outlook import forecast_of, set_outlook
from stoker_operator.core.views.conditions import ConditionSet
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import (
    NOW,
    SIZE,
    decide_once,
    listed,
    make_dataset,
    make_holder,
    make_node,
    make_view,
)


def _forecast(cluster: PeerSettings, part: WarmPathsStatus | None = None, **warm: Any) -> WarmForecast:
    """Return the forecast of a cold Dataset on two nodes. ``part``: the bytes to warm."""
    dataset = listed(make_dataset(cache={"replicas": 2}, warm=warm))
    view = replace(make_view(dataset, make_node("a"), make_node("b")), peer_settings=cluster)
    decision = decide_once(view)
    plan = decision.plans[dataset.key]
    figures = add_up(plan, decision.states)
    found = forecast_of(view, plan, figures if part is None else replace(figures, limited="warm.paths", part=part))
    assert found is not None
    return found


@cases("cluster, dataset, copies", (True, "Auto", 1), (True, "Off", 2), (False, "Auto", 2), (False, "Off", 2))
def test_the_source_sends_one_copy_where_nodes_give_each_other_what_they_have(
    cluster: bool, dataset: str, copies: int
) -> None:
    assert _forecast(PeerSettings(on=cluster), peers=dataset).origin_bytes == copies * SIZE


@pytest.mark.parametrize(("cluster", "copies"), [(True, 1), (False, 2)])
def test_of_a_part_it_is_the_same(cluster: bool, copies: int) -> None:
    part = WarmPathsStatus(digest="d", files=4, bytes=400)
    assert _forecast(PeerSettings(on=cluster), part, paths=["train/"]).origin_bytes == copies * 400


@pytest.mark.parametrize(("cluster", "copies"), [(True, 0), (False, 1)])
def test_the_source_sends_nothing_of_what_a_node_that_is_about_to_go_hands_over(cluster: bool, copies: int) -> None:
    dataset = listed(make_dataset(cache={"replicas": 1}))
    nodes = make_node("a", leaving="it has the taint x"), make_node("b"), make_holder("a", dataset)
    view = replace(make_view(dataset, *nodes), peer_settings=PeerSettings(on=cluster))
    decision = decide_once(view)
    plan = decision.plans[dataset.key]

    found = forecast_of(view, plan, add_up(plan, decision.states))

    assert found is not None
    assert found.origin_bytes == copies * SIZE


def test_a_deadline_is_at_risk_while_a_replica_has_no_node() -> None:
    dataset = listed(make_dataset(cache={"replicas": 2}, warm={"deadline": {"at": format_time(NOW + 3600)}}))
    view = make_view(dataset, make_node("a"), make_holder("a", dataset))
    decision = decide_once(view)
    plan, out = decision.plans[dataset.key], ConditionSet((), 1, NOW)

    set_outlook(out, view, plan, add_up(plan, decision.states), None, NOW)

    [said] = out.result()
    assert (said.status, said.reason) == ("False", "DeadlineAtRisk")
    assert "no node is left for 1 of its replicas" in said.message


def test_a_cap_is_reckoned_with_as_far_as_it_is_given_to_the_nodes_that_fetch() -> None:
    dataset = listed(make_dataset(cache={"replicas": 1}))
    policy = OriginPolicy(total=CapLimits(bytes_per_second="100Mi", requests_per_second=1))
    view = replace(make_view(dataset, make_node("a")), origin_policy=policy)
    decision = decide_once(view)
    plan = decision.plans[dataset.key]

    found = forecast_of(view, plan, add_up(plan, decision.states))

    assert found is not None
    assert found.seconds == ceil(found.origin_requests / 0.9)

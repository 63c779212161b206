"""A decision is kept until one of its inputs changes. Then it is made again, even if all other inputs stay the same."""

from dataclasses import replace

import pytest

from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.incremental.decision import IncrementalDecision
from stoker_operator.core.placement.node_roles import Role
from stoker_operator.core.placement.node_room import KeepRoom
from stoker_operator.core.placement.placement_draft import Draft
from stoker_operator.core.views.cluster import ClusterView
from tests.unit.stoker_operator.builders import (
    NOW,
    SIZE,
    V1,
    given,
    listed,
    make_cache,
    make_dataset,
    make_holder,
    make_node,
    make_user,
    make_view,
    report,
)

ONE = listed(make_dataset(cache={"replicas": 1}))
NEW = make_dataset("new", cache={"replicas": 1})


def decide(kept: IncrementalDecision, view: ClusterView, now: float = NOW) -> Decision:
    return kept.decide(view, {}, now)


def note_turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that records the key of each Dataset whose turn comes."""
    turns, keep = list[str](), Draft.keep

    def noted(draft: Draft, room: KeepRoom) -> None:
        turns.append(draft.dataset.key)
        keep(draft, room)

    monkeypatch.setattr(Draft, "keep", noted)
    return turns


def test_a_cold_replica_moves_when_the_free_room_of_another_node_alone_changes() -> None:
    kept, nodes = IncrementalDecision(), [make_node("a"), make_node("b")]
    cold = make_holder("a", ONE, warm=0, room=0)
    full = make_view(ONE, *nodes, cold, make_cache("b", room=SIZE - 1))
    assert decide(kept, full).plans[ONE.key].placement.roles == {"a": Role.REPLICA}
    caches = {"a": cold, "b": make_cache("b", room=SIZE)}
    roomy = ClusterView(datasets=full.datasets, nodes=full.nodes, node_caches=caches)
    assert decide(kept, roomy, NOW + 1.0).plans[ONE.key].placement.roles == {"b": Role.REPLICA}


def test_a_replica_stays_where_it_is_when_the_free_room_of_others_grows() -> None:
    kept = IncrementalDecision()
    nodes = [make_node("a"), make_node("b")]
    holding = make_holder("a", ONE, room=0)
    decide(kept, make_view(ONE, *nodes, holding, make_cache("b", room=0)))
    later = decide(kept, make_view(ONE, *nodes, holding, make_cache("b", room=9 * SIZE)), NOW + 1.0)
    assert later.plans[ONE.key].placement.roles == {"a": Role.REPLICA}


def test_a_full_cold_node_of_a_dataset_for_all_nodes_is_not_asked_about_again(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, kept, turns = (
        listed(make_dataset(cache={"replicas": "all"})),
        IncrementalDecision(),
        note_turns(monkeypatch),
    )
    full = make_holder("a", dataset, warm=0, room=0)
    nodes = [make_node("a"), make_node("b")]
    decide(kept, make_view(dataset, *nodes, full, make_cache("b")))
    taken = len(turns)
    later = decide(kept, make_view(dataset, *nodes, full, make_cache("b", room=9 * SIZE)), NOW + 1.0)
    assert later.plans[dataset.key].placement.roles == {"a": Role.REPLICA, "b": Role.REPLICA}
    assert len(turns) == taken


def test_a_node_of_a_dataset_for_all_nodes_that_lost_its_data_stays_without_another_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dataset, kept, turns = (
        listed(make_dataset(cache={"replicas": "all"})),
        IncrementalDecision(),
        note_turns(monkeypatch),
    )
    others = (make_node("a"), make_node("b"), make_holder("b", dataset))
    decide(kept, make_view(dataset, *others, make_holder("a", dataset)))
    taken = len(turns)
    later = decide(kept, make_view(dataset, *others, make_holder("a", dataset, warm=0)))
    assert later.plans[dataset.key].placement.roles == {"a": Role.REPLICA, "b": Role.REPLICA}
    assert len(turns) == taken


def test_a_listing_that_is_not_written_yet_is_not_asked_for_anew() -> None:
    kept, view = IncrementalDecision(), make_view(NEW, make_node("a"))
    first = decide(kept, view).plans[NEW.key].listing
    second = decide(kept, view, NOW + 5.0).plans[NEW.key].listing
    assert (first.asked_now, second.asked_now, second.id, second.node) == (True, False, first.id, first.node)


def test_an_answer_that_is_not_written_yet_keeps_its_time() -> None:
    kept, node = IncrementalDecision(), make_node("a")
    listing = decide(kept, make_view(NEW, node)).plans[NEW.key].listing
    row = report(NEW, listing={"id": listing.id, "version": V1, "files": 10, "bytes": SIZE})
    answered = make_view(NEW, node, make_cache("a", (given(NEW, listing_id=listing.id), row)))
    times = [decide(kept, answered, NOW + later).plans[NEW.key].listing.answered_at for later in (5.0, 9.0)]
    assert times == [NOW + 5.0, NOW + 5.0]


def test_a_dataset_that_was_made_anew_is_asked_for_anew() -> None:
    kept, node = IncrementalDecision(), make_node("a")
    first = decide(kept, make_view(NEW, node)).plans[NEW.key].listing
    again = make_dataset("new", cache={"replicas": 1}, uid="another")
    second = decide(kept, make_view(again, node), NOW + 5.0).plans[NEW.key].listing
    assert (second.asked_now, second.id != first.id, list(kept.asked)) == (True, True, ["another"])


def test_a_node_that_gets_its_cache_after_a_pod_came_there_is_given_the_pods_dataset() -> None:
    dataset, kept = listed(make_dataset(cache={"replicas": 0})), IncrementalDecision()
    parts = (dataset, make_node("a"), make_user(dataset, "a"))
    decide(kept, make_view(dataset))
    decide(kept, replace(make_view(*parts), node_caches={}))
    assert decide(kept, make_view(*parts)).plans[dataset.key].placement.roles == {"a": Role.USER}

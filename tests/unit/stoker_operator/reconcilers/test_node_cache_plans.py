"""Plans of nodes with waiters are written first: a listing, which all nodes need, or a waiting pod."""

from collections.abc import Collection

from stoker_operator.core.plans.plan import NodeCacheWrite
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.node_cache_plans import NodeCachePlans, awaited_nodes
from stoker_operator.writes.write_budget import WriteBudget, WritePriority
from stoker_operator.writes.writer import Writer
from tests.fakes.kube import FakeKube
from tests.unit.stoker_operator.builders import decided, given, listed, make_cache, make_dataset, make_node, report

DATASET = make_dataset()


def write(listing: str = "", priority: int = 0) -> NodeCacheWrite:
    """Make a write that adds the Dataset to the plan of node a."""
    spec = make_cache("a", (given(DATASET, listing_id=listing, priority=priority), None)).spec
    return NodeCacheWrite(make_node("a"), spec, create=False)


def plans(there: NodeCacheWrite | None = None) -> NodeCachePlans:
    """Make the plans of a cluster whose node a already has this write."""
    state = ClusterState("stoker")
    if there is not None:
        state.node_caches.put("a", make_cache("a").model_copy(update={"spec": there.spec}))
    return NodeCachePlans(Writer(FakeKube()), state, lambda: 0.0, lambda: None)


def priority(plans: NodeCachePlans, one: NodeCacheWrite, awaited: Collection[str] = ()) -> WritePriority | None:
    """Return the priority of the write for one node."""
    [action] = plans.actions([one], awaited)
    return action.priority


def test_a_node_that_is_asked_to_list_goes_first() -> None:
    assert priority(plans(), write(listing="1.abc")) is WritePriority.START


def test_a_node_that_was_asked_to_list_before_goes_with_the_others() -> None:
    assert priority(plans(write(listing="1.abc")), write(listing="1.abc", priority=7)) is WritePriority.PLAN


def test_a_node_that_pods_wait_for_goes_first_as_long_as_they_do() -> None:
    known, one = plans(), write()
    found = [priority(known, one, awaited) for awaited in ((), ("a",), ())]
    assert found == [WritePriority.PLAN, WritePriority.START, WritePriority.PLAN]


def test_pods_wait_for_nodes_that_give_what_they_have_from_earlier_too() -> None:
    following = listed(make_dataset(cache={"replicas": 0}))
    there = make_cache("a", (given(following, eager=False), report(following)))
    wanted = {"imagenet": frozenset({"b"})}
    plans = decided(following, make_node("a"), there, make_node("b"), make_node("c"), wanted=wanted).plans
    assert awaited_nodes({"vision/imagenet": frozenset({"b"}), "vision/gone": ()}, plans) == {"a", "b"}


def test_a_write_has_its_turn_with_the_namespace_that_spent_least_of_those_that_cause_it() -> None:
    budget = WriteBudget(30.0, lambda: 0.0)
    budget.charge(("vision",) * 3)
    known = NodeCachePlans(Writer(FakeKube(), budget), ClusterState("stoker"), lambda: 0.0, lambda: None)
    other = given(DATASET, namespace="audio", uid="uid-2")
    spec = make_cache("a", (given(DATASET), None), (other, None)).spec
    [action] = known.actions([NodeCacheWrite(make_node("a"), spec, create=False)])
    assert (action.scope, action.payers) == ("audio", ("audio", "vision"))


def test_a_write_that_changes_one_namespaces_entries_is_paid_by_it_alone() -> None:
    known = plans(write())
    [action] = known.actions([write(priority=7)])
    assert (action.scope, action.payers) == ("vision", ("vision",))

"""Of the plans of nodes those go first for which somebody waits: a listing, for which all nodes do, or a pod."""

from collections.abc import Collection

from stoker_operator.core.plan import NodeCacheWrite
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.node_cache_plans import NodeCachePlans, awaited_nodes
from stoker_operator.write_budget import WritePriority
from stoker_operator.writer import Writer
from tests.fakes.kube import FakeKube
from tests.unit.stoker_operator.builders import decided, given, listed, make_cache, make_dataset, make_node, report

DATASET = make_dataset()


def write(listing: str = "", priority: int = 0) -> NodeCacheWrite:
    """Make what would tell node a of a Dataset."""
    spec = make_cache("a", (given(DATASET, listing_id=listing, priority=priority), None)).spec
    return NodeCacheWrite(make_node("a"), spec, create=False)


def plans(there: NodeCacheWrite | None = None) -> NodeCachePlans:
    """Make the plans of a cluster in which node a has been told this."""
    state = ClusterState("stoker")
    if there is not None:
        state.node_caches.put("a", make_cache("a").model_copy(update={"spec": there.spec}))
    return NodeCachePlans(Writer(FakeKube()), state, lambda: 0.0, lambda: None)


def priority(plans: NodeCachePlans, one: NodeCacheWrite, awaited: Collection[str] = ()) -> WritePriority | None:
    """Return that of the write of one node."""
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

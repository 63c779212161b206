"""Nodes where a pod can run, and the narrowed affinity."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stoker_operator.core.fitting.affinity import may_run, prefer_nodes, require_nodes, required_terms
from stoker_operator.core.views.cluster import NodeView, PodView, Taint
from tests.support.cases import cases

GPU = Taint("gpu", "a100", "NoSchedule")


def pod(**fields: Any) -> PodView:
    return PodView("vision", "pod", **fields)


def required(*terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def node(name: str = "node-a", **labels: str) -> NodeView:
    return NodeView(name, labels=labels)


@cases(
    "expression, fits",
    (("zone", "In", "a", "b"), True),
    (("zone", "In", "b"), False),
    (("zone", "NotIn", "b"), True),
    (("rack", "NotIn", "b"), True),
    (("zone", "Exists"), True),
    (("rack", "Exists"), False),
    (("rack", "DoesNotExist"), True),
    (("gpus", "Gt", "4"), True),
    (("gpus", "Gt", "8"), False),
    (("gpus", "Lt", "9"), True),
    (("zone", "Gt", "4"), False),
    (("zone", "Near", "a"), False),
)
def test_operators_of_required_node_affinity(expression: tuple[str, ...], fits: bool) -> None:
    assert may_run(pod(affinity=required(term(*expression))), node(zone="a", gpus="8")) is fits


@cases(
    "asked, offered, fits",
    terms_are_alternatives=(
        pod(affinity=required(term("zone", "In", "x"), term("zone", "In", "a"))),
        node(zone="a"),
        True,
    ),
    an_empty_term_matches_no_node=(pod(affinity=required({})), node(zone="a"), False),
    a_node_selector_must_match_whole=(pod(node_selector={"zone": "a", "disk": "ssd"}), node(zone="a"), False),
    a_preferred_taint_does_not_block=(pod(), NodeView("a", taints=(Taint("x", "", "PreferNoSchedule"),)), True),
)
def test_a_pod_may_run_where_its_constraints_allow_it(asked: PodView, offered: NodeView, fits: bool) -> None:
    assert may_run(asked, offered) is fits


@cases(
    "toleration, fits",
    ({"operator": "Exists"}, True),
    ({"key": "gpu", "operator": "Exists"}, True),
    ({"key": "gpu", "value": "a100"}, True),
    ({"key": "gpu", "value": "v100"}, False),
    ({"key": "other", "operator": "Exists"}, False),
    ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
)
def test_taints_need_a_toleration(toleration: dict[str, Any], fits: bool) -> None:
    assert may_run(pod(tolerations=(toleration,)), NodeView("node-a", taints=(GPU,))) is fits


def test_without_own_terms_each_node_is_a_term_by_name() -> None:
    affinity = require_nodes({}, [node("a"), node("b")])
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [one["matchFields"][0]["values"] for one in terms] == [["a"], ["b"]]


def test_own_terms_get_the_hostnames_added() -> None:
    own = required(term("zone", "In", "a"), term("zone", "In", "b"))
    affinity = require_nodes(own, [NodeView("a", labels={"kubernetes.io/hostname": "host-a"})])
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [one["matchExpressions"][1]["values"] for one in terms] == [["host-a"], ["host-a"]]


def test_preferred_terms_are_weighted_and_the_pods_own_stay() -> None:
    own = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": {}}]}}
    terms = prefer_nodes(own, [(node("a"), 0.634), (node("b"), 0.001)])["nodeAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert [one["weight"] for one in terms] == [7, 63, 1]


def test_other_parts_of_the_affinity_stay() -> None:
    assert require_nodes({"podAntiAffinity": {"x": 1}}, [node("a")])["podAntiAffinity"] == {"x": 1}


def test_a_selector_matches_when_each_label_does() -> None:
    assert node().matches({})
    assert not node(zone="b").matches({"zone": "a"})


ZONES = st.sampled_from(["a", "b", "c"])
TERMS = st.one_of(
    st.just({}), st.builds(lambda zone, how: term("zone", how, zone), ZONES, st.sampled_from(["In", "NotIn", "Exists"]))
)
NODES = st.lists(ZONES, min_size=1, max_size=5).map(
    lambda zones: [node(f"n{i}", zone=zone, **{"kubernetes.io/hostname": f"n{i}"}) for i, zone in enumerate(zones)]
)


@given(st.one_of(st.just({}), st.lists(TERMS, min_size=1, max_size=3).map(lambda terms: required(*terms))), NODES)
def test_tightening_never_lets_a_pod_on_a_node_that_it_refused(affinity: dict[str, Any], nodes: list[NodeView]) -> None:
    chosen = nodes[: len(nodes) // 2 + 1]
    tightened = pod(affinity=require_nodes(affinity, chosen))
    before = {one.name for one in nodes if may_run(pod(affinity=affinity), one)}
    after = {one.name for one in nodes if may_run(tightened, one)}
    assert after == before & {one.name for one in chosen}


@given(terms=st.integers(1, 300), nodes=st.integers(1, 50))
def test_terms_times_hostnames_are_bounded(terms: int, nodes: int) -> None:
    own = required(*(term(f"k{number}", "Exists") for number in range(terms)))
    tightened = require_nodes(own, [node(f"n{number}") for number in range(nodes)])
    hostnames = [len(one["matchExpressions"][-1]["values"]) for one in required_terms(tightened) or ()]
    assert (len(hostnames), min(hostnames) >= 1, sum(hostnames) <= 1000) == (terms, True, True)

"""Rules of the scheduler that gating does not know."""

from typing import Any

from stoker_operator.core.views.placement_rules import foreign_claims, unweighed_rules
from tests.support.cases import cases

REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
CONTAINER = {"name": "main"}


@cases(
    "spec, word",
    ({"resourceClaims": [{"name": "gpu"}]}, "resource claims"),
    ({"affinity": {"podAntiAffinity": REQUIRED}}, "affinity to other pods"),
    ({"affinity": {"podAffinity": REQUIRED}}, "affinity to other pods"),
    ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, "spread"),
    ({"containers": [CONTAINER | {"ports": [{"hostPort": 80}]}]}, "host ports"),
    ({"initContainers": [CONTAINER | {"ports": [{"hostPort": 80}]}]}, "host ports"),
    ({"hostNetwork": True, "containers": [CONTAINER | {"ports": [{"containerPort": 80}]}]}, "host ports"),
    ({"volumes": [{"name": "scratch", "ephemeral": {}}, {"ephemeral": {"volumeClaimTemplate": {}}}]}, "ephemeral"),
)
def test_what_is_not_weighed_is_named(spec: dict[str, Any], word: str) -> None:
    (rule,) = unweighed_rules(spec)
    assert word in rule


@cases(
    "spec",
    {},
    {"containers": [CONTAINER | {"ports": [{"containerPort": 80}]}]},
    {"affinity": {"podAntiAffinity": PREFERRED, "nodeAffinity": REQUIRED}},
    {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]},
    {"volumes": [{"emptyDir": {}}]},
)
def test_what_never_keeps_a_pod_off_a_node_is_no_rule(spec: dict[str, Any]) -> None:
    assert unweighed_rules(spec) == ()


def test_claims_of_datasets_are_not_foreign() -> None:
    assert foreign_claims(("imagenet", "scratch"), "vision", {"vision/imagenet": None}) == ("scratch",)

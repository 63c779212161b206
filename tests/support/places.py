"""Locations of a Dataset as users write them: accepted and refused ones."""

from collections.abc import Mapping
from typing import Any

ZONE = "topology.kubernetes.io/zone"

RIGHT_PLACES: tuple[Mapping[str, Any], ...] = (
    {"replicas": "1%"},
    {"replicas": "100%"},
    {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100", "h100"]}]},
    {"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}, {"key": ZONE, "operator": "Exists"}]},
    {"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["-1"]}]},
    {"tolerations": []},
    {"tolerations": [{"operator": "Exists"}, {"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
    {"topologySpread": {"topologyKey": ZONE}},
    {"topologySpread": {"topologyKey": ZONE, "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"}},
)
WRONG_PLACES: tuple[Mapping[str, Any], ...] = (
    {"matchExpressions": [{"key": "gpu", "operator": "In"}]},
    {"matchExpressions": [{"key": "gpu", "operator": "Exists", "values": ["a100"]}]},
    {"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["many"]}]},
    {"matchExpressions": [{"key": "cpus", "operator": "Lt", "values": ["1", "2"]}]},
    {"matchExpressions": [{"key": "no good", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "gpu", "operator": "Like", "values": ["a"]}]},
    {"matchExpressions": [{"key": f"k{n}", "operator": "Exists"} for n in range(17)]},
    {"tolerations": [{"value": "yes"}]},
    {"tolerations": [{"key": "gpu", "operator": "Exists", "value": "yes"}]},
    {"tolerations": [{"key": "gpu", "effect": "Never"}]},
    {"tolerations": [{"key": f"k{n}"} for n in range(17)]},
    {"topologySpread": {"maxSkew": 1}},
    {"topologySpread": {"topologyKey": ZONE, "maxSkew": 0}},
    {"topologySpread": {"topologyKey": ZONE, "whenUnsatisfiable": "Maybe"}},
)

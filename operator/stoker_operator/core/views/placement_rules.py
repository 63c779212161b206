"""Scheduling rules of a pod that Stoker does not model. With such rules, the scheduler needs a choice of nodes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Raw = Mapping[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def unweighed_rules(spec: Raw) -> tuple[str, ...]:
    """Return the rules in a pod's spec that only the scheduler applies, as words for a message.

    Its claims are separate: claims of Datasets work everywhere (``foreign_claims``).
    """
    return tuple(_rules(spec))


def foreign_claims(claims: Sequence[str], namespace: str, datasets: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the claims that belong to no Dataset. Their volumes may be in one zone or on one node."""
    return tuple(claim for claim in claims if f"{namespace}/{claim}" not in datasets)


def _rules(spec: Raw) -> Iterator[str]:
    affinity = spec.get("affinity") or {}
    if spec.get("resourceClaims"):
        yield "its resource claims"
    if any((affinity.get(kind) or {}).get(_REQUIRED) for kind in ("podAffinity", "podAntiAffinity")):
        yield "its affinity to other pods"
    spreads = spec.get("topologySpreadConstraints") or ()
    if any(one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for one in spreads):
        yield "its topology spread constraints"
    if _has_host_port(spec):
        yield "its host ports"
    if any(volume.get("ephemeral") for volume in spec.get("volumes") or ()):
        yield "its ephemeral volumes"


def _has_host_port(spec: Raw) -> bool:
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    ports = [port for container in containers for port in container.get("ports") or ()]
    return any(port.get("hostPort") for port in ports) or bool(spec.get("hostNetwork") and ports)

"""Kubernetes quantities and pod requests: cpu, memory, pod slots and extended resources."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from stoker_api.meta import parse_number


@dataclass(frozen=True, slots=True)
class Resources:
    """An amount of each schedulable resource: thousandths of a core, bytes, pod slots, and extended resources."""

    cpu_milli: int = 0
    memory: int = 0
    pods: int = 0
    extended: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_nothing(self) -> bool:
        """True if all amounts are zero."""
        return not (self.cpu_milli or self.memory or self.pods or any(self.extended.values()))

    def plus(self, other: "Resources") -> "Resources":
        """Return the sum."""
        names = {*self.extended, *other.extended}
        extended = {name: self.extended.get(name, 0) + other.extended.get(name, 0) for name in names}
        return Resources(self.cpu_milli + other.cpu_milli, self.memory + other.memory, self.pods + other.pods, extended)

    def minus(self, other: "Resources") -> "Resources":
        """Return the difference. It may be negative on an overcommitted node."""
        names = {*self.extended, *other.extended}
        extended = {name: self.extended.get(name, 0) - other.extended.get(name, 0) for name in names}
        return Resources(self.cpu_milli - other.cpu_milli, self.memory - other.memory, self.pods - other.pods, extended)

    def times(self, count: int) -> "Resources":
        """Return the amount multiplied by ``count``."""
        extended = {name: amount * count for name, amount in self.extended.items()}
        return Resources(self.cpu_milli * count, self.memory * count, self.pods * count, extended)

    def room_for(self, request: "Resources", most: int) -> int:
        """Return how many pods with this request fit, at most ``most``."""
        if not self.covers(request):
            return 0
        plain = ((self.cpu_milli, request.cpu_milli), (self.memory, request.memory), (self.pods, request.pods))
        others = ((self.extended.get(name, 0), count) for name, count in request.extended.items())
        return min([most, *(free // asked for free, asked in (*plain, *others) if asked)])

    def exceeds(self, other: "Resources") -> bool:
        """Return True if any amount is larger."""
        names = {*self.extended, *other.extended}
        extended = any(self.extended.get(name, 0) > other.extended.get(name, 0) for name in names)
        return extended or self.cpu_milli > other.cpu_milli or self.memory > other.memory or self.pods > other.pods

    def covers(self, request: "Resources") -> bool:
        """Return True if a pod with this request fits. Like the scheduler, ignore resources that are not requested."""
        plain = (
            (self.cpu_milli, request.cpu_milli),
            (self.memory, request.memory),
            (self.pods, request.pods),
            *((self.extended.get(name, 0), count) for name, count in request.extended.items()),
        )
        return all(asked == 0 or asked <= free for free, asked in plain)


def parse_resources(raw: Mapping[str, Any], pods: int = 0) -> Resources:
    """Parse a resource list such as ``{"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": 1}``.

    Round up, as the scheduler does.
    """
    extended: dict[str, int] = {}
    cpu = memory = 0
    for name, text in raw.items():
        value = parse_number(text)
        if name == "cpu":
            cpu = _ceil(value * 1000)
        elif name == "memory":
            memory = _ceil(value)
        elif name == "pods":
            pods = _ceil(value)
        else:
            extended[name] = _ceil(value)
    return Resources(cpu, memory, pods, extended)


def pod_requests(spec: Mapping[str, Any]) -> Resources:
    """Return a pod's request: the larger of its containers together and each init container, plus overhead.

    Restartable init containers ("sidecars") count with the containers and with later init containers, as in
    k8s.io/component-helpers/resource.PodRequests. A limit without a request counts as the request. A resource in
    ``spec.resources`` replaces the containers' sum.
    """
    running = Resources()
    peak = Resources()
    for container in spec.get("initContainers") or ():
        request = _container(container)
        if container.get("restartPolicy") == "Always":
            running = running.plus(request)
            peak = _larger(peak, running)
        else:
            peak = _larger(peak, running.plus(request))
    for container in spec.get("containers") or ():
        running = running.plus(_container(container))
    overhead = parse_resources(spec.get("overhead") or {})
    return _as_a_whole(_larger(peak, running), spec).plus(overhead).plus(Resources(pods=1))


def _as_a_whole(containers: Resources, spec: Mapping[str, Any]) -> Resources:
    named = _named(spec)
    whole = parse_resources(named)
    return Resources(
        whole.cpu_milli if "cpu" in named else containers.cpu_milli,
        whole.memory if "memory" in named else containers.memory,
        containers.pods,
        {**containers.extended, **whole.extended},
    )


def _container(raw: Mapping[str, Any]) -> Resources:
    return parse_resources(_named(raw))


def _named(raw: Mapping[str, Any]) -> dict[str, Any]:
    resources = raw.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _larger(one: Resources, two: Resources) -> Resources:
    names = {*one.extended, *two.extended}
    extended = {name: max(one.extended.get(name, 0), two.extended.get(name, 0)) for name in names}
    return Resources(max(one.cpu_milli, two.cpu_milli), max(one.memory, two.memory), max(one.pods, two.pods), extended)


def _ceil(value: Decimal) -> int:
    return int(value.to_integral_value(rounding="ROUND_CEILING"))


MOST = 2**63 - 1


def clamp(number: int) -> int:
    """Return the number, or the largest that the API server accepts. A quota of 10000P limits nothing either way."""
    return min(number, MOST)

"""Checks of each node: sidecar, NodeCache, mount modes, kernel, disk, clock and CSI registration."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker_api import names
from stoker_api.times import parse_time
from stoker_cli.support.doctor.release_checks import pod_trouble
from stoker_cli.support.facts import (
    ALL_NODES,
    CACHES,
    KUBELET_LEASES,
    NODE_DRIVERS,
    SIDECAR,
    ClusterFacts,
    Raw,
    condition_of,
    name_of,
)
from stoker_cli.support.findings import Finding, fail, ok, warn

# Seconds between the clocks of a node and of the API server. Object stores refuse signatures after 15 minutes.
_SKEW, _MOST_SKEW = 5.0, 300.0
_MANY_RESTARTS = 5
_KUBELET = "kubelet"  # the field manager of its lease
_KERNEL = re.compile(r"(\d+)\.(\d+)")
# What a kernel before this version lacks, the most important first.
_KERNEL_FEATURES = (
    ((5, 9), "the observation of reads (fanotify)"),
    ((6, 5), "overlay mounts"),
    ((6, 9), "FUSE mounts that outlive a deleted sidecar pod"),
)


@dataclass(frozen=True)
class NodeObjects:
    """Objects of all nodes by name, so that a check of thousands of nodes is linear."""

    nodes: Mapping[str, Raw]
    caches: Mapping[str, Raw]
    leases: Mapping[str, Raw]
    drivers: Mapping[str, Raw]
    sidecars: Mapping[str, Sequence[Raw]]

    @classmethod
    def of(cls, facts: ClusterFacts) -> "NodeObjects":
        """Index the objects of ``facts``."""
        nodes, caches, leases, drivers = (
            {name_of(item): item for item in facts.items(read)}
            for read in (ALL_NODES, CACHES, KUBELET_LEASES, NODE_DRIVERS)
        )
        sidecars: dict[str, list[Raw]] = {}
        for pod in facts.pods(SIDECAR):
            sidecars.setdefault(str((pod.get("spec") or {}).get("nodeName") or ""), []).append(pod)
        return cls(nodes, caches, leases, drivers, sidecars)

    def names(self) -> list[str]:
        """Return the nodes with a sidecar or a NodeCache."""
        return sorted(self.caches.keys() | (self.sidecars.keys() - {""}))


def sidecar_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check the sidecar's pod on each node with a NodeCache."""
    objects = NodeObjects.of(facts)
    for node in objects.names():
        yield _sidecar(node, objects.sidecars.get(node, ()), facts.namespace)


def _sidecar(node: str, pods: Sequence[Raw], namespace: str) -> Finding:
    if not pods:
        text = "the node has a NodeCache and no sidecar pod, so no pod can mount there."
        return fail("sidecar", node, text, "Check the nodeSelector and tolerations of the DaemonSet.")
    troubles = [trouble for pod in pods if (trouble := pod_trouble(pod))]
    see = f"See: kubectl -n {namespace} describe pod {name_of(pods[0])}"
    if len(troubles) == len(pods):
        return fail("sidecar", node, f"{name_of(pods[0])} is not ready: {troubles[0]}.", see)
    restarts = max((_restarts(pod) for pod in pods), default=0)
    if restarts >= _MANY_RESTARTS:
        logs = f"See: kubectl -n {namespace} logs --previous {name_of(pods[0])}"
        return warn("sidecar", node, f"{name_of(pods[0])} restarted {restarts} times.", logs)
    return ok("sidecar", node, f"{name_of(pods[0])} is ready")


def _restarts(pod: Raw) -> int:
    return max((int(each.get("restartCount") or 0) for each in _containers(pod)), default=0)


def _containers(pod: Raw) -> Sequence[Raw]:
    return (pod.get("status") or {}).get("containerStatuses") or ()


def stale_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check that each NodeCache has its node."""
    objects = NodeObjects.of(facts)
    for node in sorted(objects.caches):
        if node in objects.nodes:
            yield ok("NodeCache", node, "has its node")
        else:
            delete = f"If the node does not return, run: kubectl delete nodecache {node}"
            yield warn("NodeCache", node, "is stale: there is no node of this name.", delete)


def kernel_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check the kernel of each node with a sidecar."""
    objects = NodeObjects.of(facts)
    for node in objects.names():
        text = str(_node_info(objects.nodes.get(node, {})).get("kernelVersion") or "")
        match = _KERNEL.match(text)
        if match is None:
            continue  # the node is gone, which ``stale_checks`` reports
        version = (int(match[1]), int(match[2]))
        missing = [what for least, what in _KERNEL_FEATURES if version < least]
        if missing:
            yield warn("kernel", node, f"Linux {text} has no {missing[0]}.", "Use Linux 6.9 or later for all features.")
        else:
            yield ok("kernel", node, f"Linux {text}")


def _node_info(node: Raw) -> Raw:
    info: Raw = (node.get("status") or {}).get("nodeInfo") or {}
    return info


def clock_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Compare each node's clock with that of the API server, by the lease of its kubelet."""
    objects = NodeObjects.of(facts)
    for node in objects.names():
        skew = _skew(objects.leases.get(node, {}))
        if skew is None:
            continue
        text = f"the clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} that of the API server."
        if abs(skew) > _MOST_SKEW:
            yield fail("clock", node, f"{text} Object stores refuse such requests.", "Start NTP or chrony on the node.")
        elif abs(skew) > _SKEW:
            yield warn("clock", node, text, "Check NTP or chrony on the node.")
        else:
            yield ok("clock", node, "agrees with the API server")


def _skew(lease: Raw) -> float | None:
    """Return how far the kubelet's clock is ahead, in seconds. None: unknown.

    The kubelet writes renewTime by its clock, and the API server dates that write by its own.
    """
    renewed = parse_time((lease.get("spec") or {}).get("renewTime"))
    fields = (lease.get("metadata") or {}).get("managedFields") or ()
    written = max((parse_time(each.get("time")) for each in fields if each.get("manager") == _KUBELET), default=0.0)
    return renewed - written if renewed and written else None


def registration_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check that the kubelet of each node with a sidecar knows the CSI driver."""
    objects = NodeObjects.of(facts)
    for node in objects.names():
        drivers = (objects.drivers.get(node, {}).get("spec") or {}).get("drivers") or ()
        if any(each.get("name") == names.CSI_DRIVER for each in drivers):
            yield ok("CSI registration", node, "the kubelet knows the driver")
        elif node in objects.nodes:
            text = f"the kubelet does not know {names.CSI_DRIVER}, so pods with data stay in ContainerCreating."
            yield fail("CSI registration", node, text, "Check kubeletDir in the chart, and the logs of the sidecar.")


def node_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check that each node with a sidecar is ready."""
    objects = NodeObjects.of(facts)
    for node in objects.names():
        if node not in objects.nodes:
            continue
        ready = condition_of(objects.nodes[node], "Ready")
        if ready.get("status") == "True":
            yield ok("node", node, "is ready")
        else:
            text = f"is not ready: {ready.get('message') or 'its kubelet gives no reason'}."
            yield warn("node", node, text, f"See: kubectl describe node {node}")

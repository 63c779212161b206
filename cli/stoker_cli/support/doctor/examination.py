"""All checks of `stoker doctor`, in their order. A check whose facts could not be read says so."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stoker_cli.support.doctor import data_checks, node_checks, release_checks, report_checks, webhook_checks
from stoker_cli.support.facts import (
    ALL_DATASETS,
    ALL_NODES,
    CACHES,
    DAEMON_SET,
    DEPLOYMENT,
    DRIVERS,
    INSTALLED_CRDS,
    KUBELET_LEASES,
    NODE_DRIVERS,
    OPERATOR_LEASES,
    POD_WEBHOOK,
    PROFILE_WEBHOOK,
    PROFILES,
    RELEASE_EVENTS,
    RELEASE_PODS,
    ClusterFacts,
    ClusterRead,
)
from stoker_cli.support.findings import Finding, fail, warn


@dataclass(frozen=True, slots=True)
class ClusterCheck:
    """A check and the reads that it needs. ``by_node``: its subjects are nodes."""

    name: str
    run: Callable[[ClusterFacts], Iterator[Finding]]
    needs: tuple[ClusterRead, ...]
    by_node: bool = False


CHECKS = (
    ClusterCheck("CRD", release_checks.crd_checks, (INSTALLED_CRDS,)),
    ClusterCheck("operator", release_checks.operator_checks, (DEPLOYMENT, RELEASE_PODS)),
    ClusterCheck("leader", release_checks.lease_checks, (OPERATOR_LEASES,)),
    ClusterCheck("versions", release_checks.version_checks, (DEPLOYMENT,)),
    ClusterCheck("DaemonSet", release_checks.daemon_set_checks, (DAEMON_SET,)),
    ClusterCheck("CSI driver", release_checks.driver_checks, (DRIVERS,)),
    ClusterCheck("webhook", webhook_checks.configuration_checks, (POD_WEBHOOK, PROFILE_WEBHOOK)),
    ClusterCheck("webhook call", webhook_checks.call_checks, ()),
    ClusterCheck("events", release_checks.event_checks, (RELEASE_EVENTS,)),
    ClusterCheck("node", node_checks.node_checks, (ALL_NODES, CACHES, RELEASE_PODS), by_node=True),
    ClusterCheck("sidecar", node_checks.sidecar_checks, (CACHES, RELEASE_PODS), by_node=True),
    ClusterCheck("NodeCache", node_checks.stale_checks, (CACHES, ALL_NODES), by_node=True),
    ClusterCheck("sidecar reports", report_checks.cache_checks, (CACHES,), by_node=True),
    ClusterCheck("kernel", node_checks.kernel_checks, (ALL_NODES, CACHES, RELEASE_PODS), by_node=True),
    ClusterCheck("clock", node_checks.clock_checks, (KUBELET_LEASES, CACHES, RELEASE_PODS), by_node=True),
    ClusterCheck(
        "CSI registration",
        node_checks.registration_checks,
        (NODE_DRIVERS, ALL_NODES, CACHES, RELEASE_PODS),
        by_node=True,
    ),
    ClusterCheck("Dataset", data_checks.source_checks, (ALL_DATASETS,)),
    ClusterCheck("TuningProfile", data_checks.profile_checks, (PROFILES,)),
)


def examine(facts: ClusterFacts, node: str = "") -> tuple[Finding, ...]:
    """Run all checks. ``node``: show only this node in checks of nodes."""
    findings = tuple(finding for check in CHECKS for finding in _examined(check, facts, node))
    if node and not any(finding.subject == node for finding in findings):
        text = "no check found this node, so it has neither a sidecar nor a NodeCache."
        return (*findings, fail("node", node, text, "Check its name, and the nodeSelector of the DaemonSet."))
    return findings


def _examined(check: ClusterCheck, facts: ClusterFacts, node: str) -> Iterator[Finding]:
    unread = [facts.unread[read] for read in check.needs if read in facts.unread]
    if unread:
        yield warn(check.name, "", f"not checked: {unread[0]}", "")
        return
    for finding in check.run(facts):
        if not node or not check.by_node or finding.subject == node:
            yield finding

"""All checks of `stoker doctor`, in their order. A check whose facts could not be read says so."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stoker_api.names import ConditionType
from stoker_cli.support.doctor import node_checks, release_checks, report_checks, webhook_checks
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
    Raw,
    condition_of,
    key_of,
    name_of,
)
from stoker_cli.support.findings import Finding, fail, ok, warn

# Conditions that must not be False, and conditions that must not be True.
_BAD_IF_FALSE = (ConditionType.ACCEPTED, ConditionType.LISTED, ConditionType.RECONCILED)
_LIMITS_IF_TRUE = (ConditionType.DEGRADED, ConditionType.SOURCE_SLOWED)


def source_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check that each Dataset is accepted, and that nodes can list and read its source."""
    for dataset in facts.items(ALL_DATASETS):
        yield _source(dataset)


def _source(dataset: Raw) -> Finding:
    key, conditions = key_of(dataset), [(kind, condition_of(dataset, kind)) for kind in _BAD_IF_FALSE]
    for kind, condition in conditions:
        if condition.get("status") == "False" and condition.get("reason") != "Listing":
            return fail("Dataset", key, f"{kind} is False: {_sentence(condition)}", _section(condition))
    for kind in _LIMITS_IF_TRUE:
        condition = condition_of(dataset, kind)
        if condition.get("status") == "True":
            return warn("Dataset", key, f"{kind} is True: {_sentence(condition)}", _section(condition))
    return ok("Dataset", key, "its source is listed, and no node reports an error")


def profile_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check that each TuningProfile is valid."""
    for profile in facts.items(PROFILES):
        name, accepted = name_of(profile), condition_of(profile, ConditionType.ACCEPTED)
        if accepted.get("status") == "False":
            action = "Check it: kubectl get tuningprofile NAME -o yaml | stoker validate -"
            yield warn("TuningProfile", name, _sentence(accepted), action)
        else:
            yield ok("TuningProfile", name, "is valid")


def _sentence(condition: Raw) -> str:
    return str(condition.get("message") or condition.get("reason") or "no reason is given")[:500]


def _section(condition: Raw) -> str:
    reason = condition.get("reason")
    return f"See {reason} in docs/operations/troubleshooting.md." if reason else ""


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
    ClusterCheck("Dataset", source_checks, (ALL_DATASETS,)),
    ClusterCheck("TuningProfile", profile_checks, (PROFILES,)),
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

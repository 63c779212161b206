"""Checks of the release: CRDs, operator, lease, sidecars' DaemonSet, CSI driver and versions."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from stoker_api import names
from stoker_api.meta import format_duration
from stoker_api.schema import crds
from stoker_api.times import parse_time
from stoker_cli.support.facts import (
    DAEMON_SET,
    DEPLOYMENT,
    DRIVERS,
    INSTALLED_CRDS,
    OPERATOR,
    OPERATOR_LEASES,
    RELEASE_EVENTS,
    ClusterFacts,
    Raw,
    condition_of,
    key_of,
    labels_of,
    name_of,
)
from stoker_cli.support.findings import Finding, fail, ok, warn

_INSTALL = "Install or upgrade the chart with helm."
_LEASE = "stoker-operator"
_LEASE_SECONDS = 60.0  # four times the duration of the operator's lease
_RECENT = 3600.0  # seconds of events
_STARTUP = "Startup probe failed"
_MOST_EVENTS = 10


def crd_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check that each CRD exists, is served, and has the fields of this program's release."""
    for name, own in _own_fields().items():
        installed = facts.named(INSTALLED_CRDS, name)
        if installed is None:
            yield fail("CRD", name, "is not installed.", _INSTALL)
        elif condition_of(installed, "Established").get("status") != "True":
            yield fail("CRD", name, "is not served by the API server.", f"See: kubectl describe crd {name}")
        else:
            yield _compared(name, _fields(installed), own)


def _compared(name: str, installed: frozenset[str], own: frozenset[str]) -> Finding:
    missing, new = sorted(own - installed), sorted(installed - own)
    if missing:
        text = f"lacks {len(missing)} fields of this program's release, such as {missing[0]}."
        return warn("CRD", name, text, "Upgrade the chart, which applies the CRDs, or use the CLI of its release.")
    if new:
        text = f"has {len(new)} fields that this program does not know, such as {new[0]}."
        return warn("CRD", name, text, "Use the CLI of the chart's release.")
    return ok("CRD", name, "is served, with all fields of this release")


@cache
def _own_fields() -> Mapping[str, frozenset[str]]:
    """Return the fields of this program's CRDs, by the name of the CRD."""
    return {name_of(crd): _fields(crd) for crd in crds().values()}


def _fields(crd: Raw) -> frozenset[str]:
    versions = [each for each in crd["spec"]["versions"] if each["name"] == names.VERSION]
    return frozenset(path for each in versions for path in _paths((each.get("schema") or {}).get("openAPIV3Schema")))


def _paths(schema: Any, above: str = "") -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    yield from _paths(schema.get("items"), above)
    yield from _paths(schema.get("additionalProperties"), above)
    for name, child in (schema.get("properties") or {}).items():
        path = f"{above}.{name}" if above else name
        yield path
        yield from _paths(child, path)


def operator_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check that replicas of the operator are ready, and that one of them leads."""
    for deployment in facts.items(DEPLOYMENT):
        wanted = int((deployment.get("spec") or {}).get("replicas", 1))
        ready = int((deployment.get("status") or {}).get("readyReplicas") or 0)
        text, subject = f"{ready} of {wanted} replicas are ready", key_of(deployment)
        pods = f"See: kubectl -n {facts.namespace} describe pods -l app.kubernetes.io/component={OPERATOR}"
        if ready == 0:
            yield fail("operator", subject, f"{text}: {pods_trouble(facts.pods(OPERATOR))}.", pods)
        elif ready < wanted:
            yield warn("operator", subject, f"{text}: {pods_trouble(facts.pods(OPERATOR))}.", pods)
        else:
            yield ok("operator", subject, text)
    if not facts.items(DEPLOYMENT):
        yield fail("operator", "", "has no Deployment in any namespace.", _INSTALL)


def pods_trouble(pods: list[Raw]) -> str:
    """Return why pods are not ready, in a sentence without its period."""
    if not pods:
        return "they have no pod, so see the events of the controller"
    reasons = sorted({reason for pod in pods if (reason := pod_trouble(pod))})
    return "; ".join(reasons[:3]) or "they are starting"


def pod_trouble(pod: Raw) -> str:
    """Return why a pod is not ready. Empty: it is ready."""
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting:
            return f"{waiting.get('reason', 'Waiting')} {waiting.get('message', '')}".strip()[:200]
    for kind in ("PodScheduled", "Ready"):
        condition = condition_of(pod, kind)
        if condition.get("status") not in (None, "True"):
            return f"{condition.get('reason', 'NotReady')} {condition.get('message', '')}".strip()[:200]
    return (
        "" if condition_of(pod, "Ready").get("status") == "True" else f"its phase is {status.get('phase', 'Unknown')}"
    )


def lease_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check that a replica of the operator renews the lease."""
    lease = facts.named(OPERATOR_LEASES, _LEASE)
    spec: Raw = {} if lease is None else lease.get("spec") or {}
    age = facts.now - parse_time(spec.get("renewTime"))
    holder = str(spec.get("holderIdentity") or "")
    logs = f"See the logs: kubectl -n {facts.namespace} logs deployment/stoker-operator"
    if not holder:
        yield fail("leader", _LEASE, "no replica of the operator holds the lease, so nothing is decided.", logs)
    elif facts.now and age > _LEASE_SECONDS:
        text = f"{holder} last renewed the lease {format_duration(age)} ago, so nothing is decided."
        yield fail("leader", _LEASE, text, logs)
    else:
        yield ok("leader", _LEASE, f"{holder} leads")


def daemon_set_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check that the sidecars' DaemonSet exists, selects nodes, and is rolled out."""
    for daemon_set in facts.items(DAEMON_SET):
        yield _rollout(daemon_set)
    if not any(labels_of(each).get("app.kubernetes.io/component") == "sidecar" for each in facts.items(DAEMON_SET)):
        yield fail("DaemonSet", "", "the sidecars have no DaemonSet in any namespace.", _INSTALL)


def _rollout(daemon_set: Raw) -> Finding:
    status, subject = daemon_set.get("status") or {}, key_of(daemon_set)
    wanted, ready = int(status.get("desiredNumberScheduled") or 0), int(status.get("numberReady") or 0)
    updated = int(status.get("updatedNumberScheduled") or 0)
    if wanted == 0:
        return warn("DaemonSet", subject, "selects no node.", "Check the nodeSelector and tolerations of the chart.")
    if ready < wanted:
        text = f"{wanted - ready} of {wanted} pods are not ready."
        return warn("DaemonSet", subject, text, "The check sidecar names their nodes.")
    if updated < wanted:
        see = f"Follow it: kubectl -n {subject.split('/')[0]} rollout status daemonset/{name_of(daemon_set)}"
        return warn("DaemonSet", subject, f"{wanted - updated} of {wanted} pods run an earlier template.", see)
    return ok("DaemonSet", subject, f"all {wanted} pods are ready")


def driver_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check that the CSIDriver object exists. Without it, the kubelet passes no pod information to sidecars."""
    if facts.named(DRIVERS, names.CSI_DRIVER) is None:
        yield fail("CSI driver", names.CSI_DRIVER, "has no CSIDriver object, so no pod can mount.", _INSTALL)
    else:
        yield ok("CSI driver", names.CSI_DRIVER, "is installed")


def version_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Compare the version of this program with that of the release."""
    release, own = facts.release_version, facts.cli_version
    if not release:
        yield warn("versions", "", "the operator's Deployment has no version label.", _INSTALL)
    elif release != own:
        text = f"this program has version {own}, and the release has {release}."
        yield warn("versions", "CLI", text, f"Use the CLI of version {release}.")
    else:
        yield ok("versions", "CLI", f"this program and the release have version {own}")


def event_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Show recent warnings about objects in the namespace of the release, the newest first.

    Each start has failed startup probes. A container that does not start has a finding of its own.
    """
    warnings = (
        each for each in facts.items(RELEASE_EVENTS) if each.get("type") == "Warning" and _is_recent(each, facts)
    )
    recent = [each for each in warnings if not str(each.get("message", "")).startswith(_STARTUP)]
    for event in sorted(recent, key=_when, reverse=True)[:_MOST_EVENTS]:
        about = event.get("involvedObject") or {}
        subject = f"{about.get('kind', '')}/{about.get('name', '')}"
        text = f"{event.get('reason', '')}: {str(event.get('message', '')).strip()[:300]}"
        yield warn("events", subject, text, f"See: kubectl -n {facts.namespace} describe {subject}")
    if not recent:
        yield ok("events", facts.namespace, "no warning in the last hour")


def _is_recent(event: Raw, facts: ClusterFacts) -> bool:
    return not facts.now or facts.now - _when(event) < _RECENT


def _when(event: Raw) -> float:
    return parse_time(event.get("lastTimestamp") or event.get("eventTime"))

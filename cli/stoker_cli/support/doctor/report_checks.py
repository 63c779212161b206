"""Checks of each NodeCache, as the sidecar reports it: readiness, version, mounts, observer, confinement, disks."""

from collections.abc import Callable, Iterator, Mapping

from pydantic import ValidationError

from stoker_api import names
from stoker_api.datasets.dataset import MountMode
from stoker_api.meta import format_bytes
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_cli.support.facts import CACHES, ClusterFacts, name_of
from stoker_cli.support.findings import Finding, fail, ok, warn

_STORE_REASONS = frozenset(
    {
        names.Reason.ACCESS_DENIED,
        names.Reason.BUCKET_NOT_FOUND,
        names.Reason.ENDPOINT_NOT_ALLOWED,
        names.Reason.ENDPOINT_UNREACHABLE,
        names.Reason.INVALID_CREDENTIALS,
        names.Reason.SERVER_ERROR,
    }
)
_SLOW_MILLISECONDS = 1000
_NodeCheck = Callable[[ClusterFacts, str, NodeCacheStatus], Iterator[Finding]]


def cache_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check what each sidecar reports in its NodeCache: one finding for each subject of a node."""
    for check in (_ready, _version, _modes, _observer, _pressure, _confinement, _disk, _store):
        for item in facts.items(CACHES):
            node = name_of(item)
            try:
                yield from check(facts, node, NodeCache.model_validate(item).status)
            except ValidationError as error:
                text = f"the status is of another release: {error.error_count()} values cannot be read."
                yield warn(_NAMES[check], node, text, "Use the CLI of the release.")


def _ready(_: ClusterFacts, node: str, status: NodeCacheStatus) -> Iterator[Finding]:
    ready = next((each for each in status.conditions if each.type == names.ConditionType.READY), None)
    if ready is None:
        yield fail("ready", node, "the sidecar has written no status.", f"See: stoker doctor --node {node}")
    elif ready.status != "True":
        yield fail("ready", node, ready.message or ready.reason, f"See the sidecar's logs. Reason: {ready.reason}.")
    else:
        yield ok("ready", node, "the sidecar is ready")


def _version(facts: ClusterFacts, node: str, status: NodeCacheStatus) -> Iterator[Finding]:
    have, want = status.sidecar_version, facts.release_version
    if want and have and have != want:
        text = f"the sidecar has version {have}, and the operator has {want}."
        yield warn("version", node, text, f"Finish the rollout: kubectl -n {facts.namespace} rollout status daemonset")
    elif have:
        yield ok("version", node, f"the sidecar has version {have}")


def _modes(_: ClusterFacts, node: str, status: NodeCacheStatus) -> Iterator[Finding]:
    why = status.modes_message or "the sidecar gives no reason"
    if not status.modes:
        return  # no status yet, which ``_ready`` reports
    if MountMode.FUSE not in status.modes:
        text = "FUSE is missing, so pods mount only complete data."
        yield fail("mount modes", node, text, "Load the kernel module fuse, so that /dev/fuse exists on the node.")
    elif MountMode.OVERLAY not in status.modes:
        yield warn("mount modes", node, f"overlay is missing: {why}.", "See docs/operations/install.md, Node features.")
    else:
        yield ok("mount modes", node, ", ".join(status.modes))


def _observer(_: ClusterFacts, node: str, status: NodeCacheStatus) -> Iterator[Finding]:
    remedy = "See docs/operations/day-2.md, Workloads."
    yield from _reported(
        "observer", node, status.observer, "reads of native and overlay mounts are not observed", remedy
    )


def _pressure(_: ClusterFacts, node: str, status: NodeCacheStatus) -> Iterator[Finding]:
    remedy = "See docs/operations/troubleshooting.md, Why is STALL empty."
    yield from _reported("pressure", node, status.pressure, "waits of pods for disks are not counted", remedy)


def _confinement(_: ClusterFacts, node: str, status: NodeCacheStatus) -> Iterator[Finding]:
    remedy = "See docs/operations/install.md, Node features."
    yield from _reported("confinement", node, status.confinement, "the sidecar's processes are not confined", remedy)


def _reported(check: str, node: str, report: str, problem: str, remedy: str) -> Iterator[Finding]:
    """Check a report that begins with "None" if the feature is missing. It is empty before the first report."""
    if report.startswith("None"):
        yield warn(check, node, f"{problem}. {report}", remedy)
    elif report:
        yield ok(check, node, report)


def _disk(_: ClusterFacts, node: str, status: NodeCacheStatus) -> Iterator[Finding]:
    for folder in status.cache_folders:
        if not folder.healthy:
            why = folder.message or "the sidecar gives no reason"
            text = f"{folder.path} is out of service: {why}."
            yield fail("cache disk", node, text, "Repair or replace the disk, then restart the sidecar.")
        elif folder.available_bytes <= 0:
            text = f"{folder.path} is at its floor: 0 B of {format_bytes(folder.capacity_bytes)} are left for new data."
            yield warn("cache disk", node, text, "Free space, lower sidecar.floor.bytes, or add a cache folder.")
        else:
            yield ok("cache disk", node, f"{folder.path} has {format_bytes(folder.available_bytes)} above its floor")


def _store(_: ClusterFacts, node: str, status: NodeCacheStatus) -> Iterator[Finding]:
    """Check that the node's requests to object stores are answered, and how fast."""
    failing = [row for row in status.datasets if row.error is not None and row.error.reason in _STORE_REASONS]
    if failing:
        row, more = failing[0], f" ({len(failing) - 1} more Datasets)" if len(failing) > 1 else ""
        assert row.error is not None
        text = f"{row.namespace}/{row.name}: {row.error.message}{more}"
        yield fail("store", node, text, f"See {row.error.reason} in docs/operations/troubleshooting.md.")
        return
    shortest = min((row.source_milliseconds for row in status.datasets if row.source_milliseconds), default=0)
    rate = max((row.best_source_bytes_per_second or 0 for row in status.datasets), default=0)
    if not shortest:
        return  # it fetched nothing since its fetcher started
    text = f"answers in {shortest:,} ms" + (f" and gives {format_bytes(rate)}/s" if rate else "")
    if shortest >= _SLOW_MILLISECONDS:
        yield warn("store", node, f"{text} at best.", "Check the node's network, or use a closer endpoint.")
    else:
        yield ok("store", node, text)


_NAMES: Mapping[_NodeCheck, str] = {
    _ready: "ready",
    _version: "version",
    _modes: "mount modes",
    _observer: "observer",
    _pressure: "pressure",
    _confinement: "confinement",
    _disk: "cache disk",
    _store: "store",
}

"""Removes everything that the operator created, in an order that leaves no data, held pod or finalizer behind."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from stoker_api import names
from stoker_api.node_caches.node_storage import MountPhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_kube.api import JSON, Kube, Object
from stoker_kube.errors import Conflict, Invalid, NotFound
from stoker_kube.resources import (
    DATASETS,
    DEPLOYMENTS,
    LEASES,
    NODE_CACHES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    TRAINING_JOBS,
    Kind,
)
from stoker_operator.core.plans.credentials_rbac import is_grant
from stoker_operator.core.plans.volumes import is_ours
from stoker_operator.core.pods.injection import gate_names, remove_gate
from stoker_operator.core.views.cluster import COMPONENT_LABEL, ClusterView, parse_node, parse_pod
from stoker_operator.core.views.installed_names import DEPLOYMENT, LEASE, WEBHOOK_SECRET
from stoker_operator.core.views.usage import Use, pods_sentence
from stoker_operator.errors import UninstallError

NAMED = 5  # objects that a sentence names before it counts the rest
POLL = 1.0  # seconds between checks while waiting
_OURS = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"


@dataclass(frozen=True, slots=True)
class Installation:
    """The place of the installation and the options of its removal; ``timeout`` in seconds, for each wait."""

    namespace: str
    timeout: float
    ignore_pods: bool = False  # continue although pods use Datasets
    ignore_nodes: bool = False  # continue although nodes did not clean their disks


class Uninstall:
    """Removes everything: call ``run`` once; after a failure it may be repeated.

    Until all nodes are clean, it removes only objects that the operator would create again. If that fails, it starts
    the operator again, so that annotated pods can be created as before.
    """

    def __init__(
        self,
        kube: Kube,
        what: Installation,
        tell: Callable[[str], None],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._kube: Final = kube
        self._what: Final = what
        self._tell: Final = tell
        self._sleep: Final = sleep

    async def run(self) -> None:
        """Run all steps. Raises KubeError, UninstallError."""
        if not self._what.ignore_pods:
            await self._wait_for(self._pods_in_use, "pods still use Datasets: {}; delete them, or use --ignore-pods")
        replicas = await self._operator_replicas()
        try:
            await self._stop_operator(replicas)
            await self._clean_nodes()
        except Exception:  # after any error the webhook must answer again
            await self._start_operator(replicas)
            raise
        await self._release_pods()
        for kind in (DATASETS, TRAINING_JOBS):
            await self._strip_finalizers(kind)
        for kind in (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, ROLE_BINDINGS, ROLES):
            await self._delete_ours(kind)
        if not self._what.ignore_pods:
            await self._wait_for(self._volumes, "volumes are still there: {}; look for pods that name their claims")
        await self._delete_all(NODE_CACHES)
        await self._delete(LEASES, LEASE, self._what.namespace)
        for secret in (WEBHOOK_SECRET, names.PEER_AUTHORITY_SECRET, names.EARLIER_PEER_SECRET):
            await self._delete(SECRETS, secret, self._what.namespace)
        self._tell("done: Datasets, TrainingJobs, classes and profiles remain, without effect")

    async def _operator_replicas(self) -> int | None:
        """Return the Deployment's number of replicas; None if there is no Deployment."""
        try:
            there = await self._kube.get(DEPLOYMENTS, DEPLOYMENT, self._what.namespace)
        except NotFound:
            return None
        return int(there["spec"].get("replicas", 1))

    async def _stop_operator(self, replicas: int | None) -> None:
        if replicas is None:
            self._tell(f"no Deployment {DEPLOYMENT}: nothing to stop")
            return
        await self._scale_operator(0)
        await self._wait_for(self._operator_pods, "the operator does not stop: {}")
        self._tell("the operator has stopped")

    async def _start_operator(self, replicas: int | None) -> None:
        if replicas:
            await self._scale_operator(replicas)
            self._tell("the operator was started again: nothing has changed")

    async def _scale_operator(self, replicas: int) -> None:
        patch: Object = {"spec": {"replicas": replicas}}
        await self._kube.patch(DEPLOYMENTS, DEPLOYMENT, patch, self._what.namespace)

    async def _clean_nodes(self) -> None:
        caches = await self._kube.list(NODE_CACHES)
        for cache in caches.items:
            await self._kube.patch(NODE_CACHES, cache["metadata"]["name"], {"spec": {"datasets": []}})
        try:
            await self._wait_for(
                self._dirty_nodes, "data is left on disk: {}; look at their sidecars, or use --ignore-nodes"
            )
        except UninstallError as error:
            if not self._what.ignore_nodes:
                raise
            self._tell(f"{error}: continuing because of --ignore-nodes")
            return
        self._tell(f"{len(caches.items)} nodes are clean")

    async def _release_pods(self) -> None:
        # All pods, not only those with Stoker's label: no process would ever release a pod that lost it.
        pods = [pod async for page in self._kube.pages(PODS) for pod in page.items]
        held = [pod for pod in pods if parse_pod(pod).gated]
        for pod in held:
            await self._release(pod)
        self._tell(f"{len(held)} held pods were released")

    async def _release(self, pod: Object) -> None:
        operations = remove_gate(gate_names(pod["spec"]["schedulingGates"]))
        meta = pod["metadata"]
        try:
            await self._kube.patch(PODS, meta["name"], operations, meta["namespace"], content_type=JSON)
        except (NotFound, Conflict, Invalid):
            self._tell(f"pod {meta['namespace']}/{meta['name']} changed during the uninstall and was skipped")

    async def _strip_finalizers(self, kind: Kind) -> None:
        for item in (await self._kube.list(kind)).items:
            meta = item["metadata"]
            kept = [one for one in meta.get("finalizers") or () if one != names.FINALIZER]
            if len(kept) != len(meta.get("finalizers") or ()):
                patch: Object = {"metadata": {"finalizers": kept, "resourceVersion": meta["resourceVersion"]}}
                await self._kube.patch(kind, meta["name"], patch, meta["namespace"])
                self._tell(f"{kind.kind} {meta['namespace']}/{meta['name']} has no finalizer now")

    async def _delete_ours(self, kind: Kind) -> None:
        for item in (await self._kube.list(kind, label_selector=_OURS)).items:
            meta = item["metadata"]
            if is_ours(item) or is_grant(meta["name"]):
                await self._delete(kind, meta["name"], meta.get("namespace", ""))

    async def _delete_all(self, kind: Kind) -> None:
        for item in (await self._kube.list(kind)).items:
            await self._delete(kind, item["metadata"]["name"])

    async def _delete(self, kind: Kind, name: str, namespace: str = "") -> None:
        try:
            await self._kube.delete(kind, name, namespace)
        except NotFound:
            return
        self._tell(f"deleted {kind.kind} {namespace + '/' if namespace else ''}{name}")

    async def _wait_for(self, left: Callable[[], Awaitable[str]], sentence: str) -> None:
        """Wait until ``left()`` is empty. Raises UninstallError with the rest, put into ``sentence``."""
        waited, told = 0.0, ""
        while rest := await left():
            if waited >= self._what.timeout:
                raise UninstallError(f"gave up after {self._what.timeout:.0f} s: " + sentence.format(rest))
            if rest != told:
                self._tell(f"waiting: {rest}")
                told = rest
            await self._sleep(POLL)
            waited += POLL

    async def _pods_in_use(self) -> str:
        view = await self._view()
        answering = (name for name in view.node_caches if name in view.nodes and view.nodes[name].ready)
        rows = ((row, name) for name in answering for row in view.node_caches[name].status.mounts)
        mounted = {
            (row.pod_namespace, row.pod): Use(row.pod_namespace, row.pod, name)
            for row, name in rows
            if row.phase is MountPhase.MOUNTED
        }
        return pods_sentence(tuple(mounted[key] for key in sorted(mounted))) if mounted else ""

    async def _operator_pods(self) -> str:
        selector = f"{COMPONENT_LABEL}=operator"
        pods = await self._kube.list(PODS, self._what.namespace, label_selector=selector)
        return ", ".join(sorted(pod["metadata"]["name"] for pod in pods.items))

    async def _volumes(self) -> str:
        """Name the remaining volumes.

        Kubernetes removes a volume shortly after its claim, and a claim after its last pod.
        """
        volumes = (await self._kube.list(PERSISTENT_VOLUMES, label_selector=_OURS)).items
        return _some([item["metadata"]["name"] for item in volumes if is_ours(item)])

    async def _dirty_nodes(self) -> str:
        view = await self._view()
        dirty = [name for name, cache in sorted(view.node_caches.items()) if cache.status.datasets]
        waiting = [name for name in dirty if name in view.nodes and view.nodes[name].ready]
        return f"nodes {_some(waiting)} clean their disks" if waiting else ""

    async def _view(self) -> ClusterView:
        caches = [NodeCache.model_validate(raw) for raw in (await self._kube.list(NODE_CACHES)).items]
        # Count all sidecars as ready: this is a single look, and a restarting sidecar must not look like a missing one.
        nodes = [replace(parse_node(raw), sidecar_ready=True) for raw in (await self._kube.list(NODES)).items]
        return ClusterView(
            node_caches={cache.metadata.name: cache for cache in caches}, nodes={node.name: node for node in nodes}
        )


def _some(found: list[str]) -> str:
    """Return the first few names, then a count; empty if there are no names."""
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(sorted(found)[:NAMED]) + more

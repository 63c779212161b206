"""Reads from the API server. Errors become sentences for the user."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.jobs.pod_figures import PodFigures
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.node_caches import node_answer
from stoker_api.node_caches.node_answer import NodeAnswer
from stoker_api.node_caches.node_storage import NodeMount
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.tolerant import read_tolerantly
from stoker_cli.access.pod_figures import ASK_FOR_FIGURES, ASK_FOR_NODES, as_node_caches
from stoker_cli.errors import NOT_FOUND, CliError, NodesRefusedError
from stoker_kube.client import KubeClient
from stoker_kube.errors import Forbidden, NotFound, Unavailable
from stoker_kube.resources import (
    DATASETS,
    EVENTS,
    JOBS,
    NODE_CACHES,
    POD_FIGURES,
    PODS,
    TRAINING_JOBS,
    TUNING_PROFILES,
    Kind,
)

_MOST_OWNERS = 4  # levels above a pod: a CronJob has two, and a queue or another operator may add one
_SIDECARS = "app.kubernetes.io/name=stoker,app.kubernetes.io/component=sidecar"


class ClusterReads:
    """Typed reads with the rights of the user."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.node_caches_refused = False  # True after a read of a NodeCache was forbidden

    async def dataset(self, name: str) -> Dataset:
        """Read a Dataset. Raises CliError with NOT_FOUND."""
        return read_dataset(await self._get(DATASETS, name))

    async def readable_datasets(self, keys: Iterable[tuple[str, str]]) -> list[Dataset]:
        """Return the Datasets with these namespaces and names that exist and that the user may read."""
        datasets = []
        for namespace, name in keys:
            with suppress(NotFound, Forbidden):
                datasets.append(read_dataset(await self.client.get(DATASETS, name, namespace)))
        return datasets

    async def datasets(self, everywhere: bool) -> list[Dataset]:
        """Return all Datasets of the namespace, or of all namespaces."""
        listing = await self.client.list(DATASETS, "" if everywhere else self.namespace)
        return [read_dataset(item) for item in listing.items]

    async def workload_caches(self, namespace: str) -> list[NodeCache]:
        """Return the current figures of pods by node, or the last ones in NodeCaches if these are not available.

        ``namespace``: empty for all namespaces. Raises CliError if the user may read neither.
        """
        why = ""
        try:
            listing = await self.client.list(POD_FIGURES, namespace)
            return as_node_caches(map(PodFigures.model_validate, listing.items), time.time())
        except (NotFound, Forbidden):
            pass  # the chart has no figures API, or the user may not read it
        except Unavailable as error:
            why = f" ({error.message})"
        try:
            return await self._listed_node_caches()
        except Forbidden as error:
            where = f"in namespace {namespace}" if namespace else "in all namespaces"
            raise CliError(ASK_FOR_FIGURES.format(where=where, but=why)) from error

    async def node_caches(self) -> list[NodeCache]:
        """Return all NodeCaches by name. Raises NodesRefusedError if the user may not read them."""
        try:
            return await self._listed_node_caches()
        except Forbidden as error:
            raise NodesRefusedError(ASK_FOR_NODES) from error

    async def _listed_node_caches(self) -> list[NodeCache]:
        listing = await self.client.list(NODE_CACHES)
        return sorted((NodeCache.model_validate(item) for item in listing.items), key=lambda cache: cache.metadata.name)

    async def readable_node_caches(self) -> list[NodeCache]:
        """Return all NodeCaches, or an empty list if the user may not read them."""
        try:
            return await self._listed_node_caches()
        except (NotFound, Forbidden):
            return []

    async def tuning_profile(self, name: str) -> dict[str, Any] | None:
        """Read a TuningProfile. Return None if it does not exist or the user may not read it."""
        try:
            return await self.client.get(TUNING_PROFILES, name)
        except (NotFound, Forbidden):
            return None

    async def pod(self, name: str) -> dict[str, Any]:
        """Read a pod. Raises CliError with NOT_FOUND."""
        return await self._get(PODS, name)

    async def training_job(self, name: str) -> TrainingJob:
        """Read a TrainingJob. Raises CliError with NOT_FOUND."""
        return TrainingJob.model_validate(await self._get(TRAINING_JOBS, name))

    async def job(self, name: str) -> dict[str, Any]:
        """Read a Job. Raises CliError with NOT_FOUND."""
        return await self._get(JOBS, name)

    async def pods_of_job(self, name: str) -> Sequence[dict[str, Any]]:
        """Return the existing pods of a Job."""
        return (await self.client.list(PODS, self.namespace, label_selector=f"job-name={name}")).items

    async def pods_with(self, labels: str) -> Sequence[dict[str, Any]]:
        """Return the existing pods with these labels and with Datasets."""
        selector = f"{labels},{names.LABEL_MANAGED}"
        return (await self.client.list(PODS, self.namespace, label_selector=selector)).items

    async def node_cache(self, name: str) -> NodeCache | None:
        """Read a NodeCache. Return None if it does not exist or the user may not read it."""
        try:
            return NodeCache.model_validate(await self.client.get(NODE_CACHES, name))
        except NotFound:
            return None
        except Forbidden:
            self.node_caches_refused = True
            return None

    async def owners(self, pod: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the controllers of a pod, nearest first, up to the first that is gone or not readable."""
        owners: list[dict[str, Any]] = []
        child: Mapping[str, Any] = pod
        while len(owners) < _MOST_OWNERS and (ref := _controller(child)) is not None:
            try:
                child = await self.client.get(_kind_of(ref), str(ref["name"]), str(pod["metadata"]["namespace"]))
            except (NotFound, Forbidden):
                break
            owners.append({**child, "kind": ref["kind"]})
        return owners

    async def sidecars(self) -> Sequence[dict[str, Any]]:
        """Return the sidecar pods of all namespaces."""
        return (await self.client.list(PODS, label_selector=_SIDECARS)).items

    async def query_node(self, pod: Mapping[str, Any], query: str) -> NodeAnswer:
        """Query a sidecar through the API server and the kubelet. Raises KubeError and ValueError."""
        meta, path = pod["metadata"], f"{node_answer.PATH}?{query}" if query else node_answer.PATH
        body = await self.client.ask_pod(
            meta["name"], meta["namespace"], node_answer.PORT, path, node_answer.MOST_BYTES
        )
        return NodeAnswer.model_validate_json(body)

    async def events(self, pod: dict[str, Any]) -> Sequence[dict[str, Any]]:
        """Return the events about one pod."""
        selector = f"involvedObject.uid={pod['metadata']['uid']}"
        return (await self.client.list(EVENTS, self.namespace, field_selector=selector)).items

    async def cache_of(self, pod: Mapping[str, Any]) -> NodeCache | None:
        """Return the NodeCache of the node of a pod, as ``node_cache`` does."""
        node = pod["spec"].get("nodeName")
        return await self.node_cache(node) if node else None

    async def shown_mounts(self, pod: Mapping[str, Any]) -> Sequence[NodeMount]:
        """Return the mounts of a pod from its figures, or nothing if the user may not read these."""
        meta = pod["metadata"]
        try:
            raw = await self.client.get(POD_FIGURES, meta["name"], meta["namespace"])
        except (NotFound, Forbidden, Unavailable):
            return ()
        self.node_caches_refused = False
        return PodFigures.model_validate(raw).mounts

    async def _get(self, kind: Kind, name: str) -> dict[str, Any]:
        try:
            return await self.client.get(kind, name, self.namespace)
        except NotFound as error:
            raise self.missing(kind, name) from error

    def missing(self, kind: Kind, name: str) -> CliError:
        """Return the error for an object that does not exist in the namespace."""
        where = f"in namespace {self.namespace}. Use -n for another namespace."
        return CliError(f"No {kind.kind} {name} {where}", NOT_FOUND)


def read_dataset(raw: Mapping[str, Any]) -> Dataset:
    """Parse a Dataset. Its status may come from a later release of the operator."""
    return read_tolerantly(Dataset, raw)[0]


def _controller(item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((ref for ref in item["metadata"].get("ownerReferences") or () if ref.get("controller")), None)


def _kind_of(ref: Mapping[str, Any]) -> Kind:
    """Return the kind of an owner, with the regular plural."""
    group, _, version = str(ref["apiVersion"]).rpartition("/")
    return Kind(group, version, f"{str(ref['kind']).lower()}s", str(ref["kind"]), namespaced=True)

"""The CLI's few requests to the API server, with errors as sentences."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stoker_api import names, node_answer
from stoker_api.dataset import Dataset
from stoker_api.node_answer import NodeAnswer
from stoker_api.node_storage import NodeMount
from stoker_api.nodecache import NodeCache
from stoker_api.trainingjob import TrainingJob
from stoker_cli.errors import NOT_FOUND, UNREACHABLE, CliError
from stoker_kube.client import KubeClient
from stoker_kube.context import default_namespace
from stoker_kube.errors import Forbidden, KubeError, NotFound
from stoker_kube.resources import DATASETS, EVENTS, JOBS, NODE_CACHES, PODS, TRAINING_JOBS, TUNING_PROFILES, Kind

_SIDECARS = "app.kubernetes.io/name=stoker,app.kubernetes.io/component=sidecar"


@dataclass(frozen=True)
class Target:
    """Which cluster and namespace the user means."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None

    @property
    def own_namespace(self) -> str:
        """The namespace asked for, else the context's."""
        return self.namespace or default_namespace(self.kubeconfig, self.context)


class Cluster:
    """Typed reads and the small writes that the commands make."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self.namespace = namespace

    async def dataset(self, name: str) -> Dataset:
        """Read a Dataset. Raises CliError with NOT_FOUND."""
        return Dataset.model_validate(await self._get(DATASETS, name))

    async def readable_datasets(self, keys: Iterable[tuple[str, str]]) -> list[Dataset]:
        """Return the Datasets of these namespaces and names that there are, and that may be read."""
        found = []
        for namespace, name in keys:
            with suppress(NotFound, Forbidden):
                found.append(Dataset.model_validate(await self._client.get(DATASETS, name, namespace)))
        return found

    async def datasets(self, everywhere: bool) -> list[Dataset]:
        """Return all Datasets of the namespace, or of all namespaces."""
        listing = await self._client.list(DATASETS, "" if everywhere else self.namespace)
        return [Dataset.model_validate(item) for item in listing.items]

    async def node_caches(self) -> list[NodeCache]:
        """Return every node's cache, by name."""
        listing = await self._client.list(NODE_CACHES)
        return sorted((NodeCache.model_validate(item) for item in listing.items), key=lambda cache: cache.metadata.name)

    async def readable_node_caches(self) -> list[NodeCache]:
        """Return every node's cache; nothing for who may not read them."""
        try:
            return await self.node_caches()
        except (NotFound, Forbidden):
            return []

    async def tuning_profile(self, name: str) -> dict[str, Any] | None:
        """Read a TuningProfile; None where there is none of that name, and for who may not read it."""
        try:
            return await self._client.get(TUNING_PROFILES, name)
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
        """Return the pods of a Job that there are still."""
        return (await self._client.list(PODS, self.namespace, label_selector=f"job-name={name}")).items

    async def pods_with(self, labels: str) -> Sequence[dict[str, Any]]:
        """Return the pods with these labels that Stoker gave Datasets, and that there are still."""
        selector = f"{labels},{names.LABEL_MANAGED}"
        return (await self._client.list(PODS, self.namespace, label_selector=selector)).items

    async def node_cache(self, name: str) -> NodeCache | None:
        """Read a node's cache; None where there is none, and for who may not read it."""
        try:
            return NodeCache.model_validate(await self._client.get(NODE_CACHES, name))
        except (NotFound, Forbidden):
            return None

    async def sidecars(self) -> Sequence[dict[str, Any]]:
        """Return the sidecars' pods of all namespaces."""
        return (await self._client.list(PODS, label_selector=_SIDECARS)).items

    async def ask_node(self, pod: Mapping[str, Any], query: str) -> NodeAnswer:
        """Return what a sidecar answers, through the API server and the kubelet. Raises KubeError and ValueError."""
        meta, path = pod["metadata"], f"{node_answer.PATH}?{query}" if query else node_answer.PATH
        body = await self._client.ask_pod(
            meta["name"], meta["namespace"], node_answer.PORT, path, node_answer.MOST_BYTES
        )
        return NodeAnswer.model_validate_json(body)

    async def events(self, pod: dict[str, Any]) -> Sequence[dict[str, Any]]:
        """Return the events about one pod."""
        selector = f"involvedObject.uid={pod['metadata']['uid']}"
        return (await self._client.list(EVENTS, self.namespace, field_selector=selector)).items

    async def mounts(self, pod: dict[str, Any]) -> Sequence[NodeMount]:
        """Return what the pod's node says of its mounts.

        Nothing where there is no such node, or for who may not read NodeCaches.
        """
        node = pod["spec"].get("nodeName")
        if not node:
            return ()
        try:
            return NodeCache.model_validate(await self._client.get(NODE_CACHES, node)).status.mounts
        except (NotFound, Forbidden):
            return ()

    async def annotate(self, name: str, annotation: str) -> datetime:
        """Put the time of now on a Dataset, and return it: how `warm` and `refresh` ask the operator."""
        # Whole seconds, as the times in a status are: the answer must not look older than the question.
        now = datetime.now(UTC).replace(microsecond=0)
        await self._patch(name, {"metadata": {"annotations": {annotation: now.isoformat()}}})
        return now

    async def warm(self, name: str, changes: Mapping[str, object]) -> Dataset:
        """Change spec.warm, where None takes a field away; ask for it now; return it as it is then."""
        now = datetime.now(UTC).replace(microsecond=0)
        asked = {"annotations": {names.ANNOTATION_WARM_REQUESTED: now.isoformat()}}
        return await self._patch(
            name, {"metadata": asked, "spec": {"warm": dict(changes)}} if changes else {"metadata": asked}
        )

    async def pause(self, name: str, paused: bool) -> None:
        """Set spec.warm.paused."""
        await self._patch(name, {"spec": {"warm": {"paused": paused}}})

    async def _patch(self, name: str, body: dict[str, Any]) -> Dataset:
        try:
            return Dataset.model_validate(await self._client.patch(DATASETS, name, body, self.namespace))
        except NotFound as error:
            raise self._missing(DATASETS, name) from error

    async def _get(self, kind: Kind, name: str) -> dict[str, Any]:
        try:
            return await self._client.get(kind, name, self.namespace)
        except NotFound as error:
            raise self._missing(kind, name) from error

    def _missing(self, kind: Kind, name: str) -> CliError:
        where = f"in namespace {self.namespace}: name another one with -n"
        return CliError(f"There is no {kind.kind} {name} {where}.", NOT_FOUND)


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Cluster]:
    """Return a Cluster for the length of a command. Raises CliError for everything that the API server refuses."""
    try:
        async with await KubeClient.connect(target.kubeconfig, target.context) as client:
            yield Cluster(client, target.own_namespace)
    except NotFound as error:
        raise CliError(f"Is Stoker installed in this cluster? {error}", NOT_FOUND) from error
    except KubeError as error:
        raise CliError(str(error), UNREACHABLE) from error

"""The connection to the cluster that the user selected, and writes there. Errors become sentences for the user."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_cli.access.cluster_reads import ClusterReads, read_dataset
from stoker_cli.errors import NOT_FOUND, UNREACHABLE, CliError
from stoker_kube.client import KubeClient
from stoker_kube.errors import NO_ANSWER, Conflict, KubeError, NotFound
from stoker_kube.resources import (
    DATASETS,
    PODS,
)

DEFAULT = "default"


def default_namespace(kubeconfig: Path | None = None, context: str | None = None) -> str:
    """Return the namespace of ``context``, or of the current context. Defaults to ``default``."""
    first = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = kubeconfig or Path(first or Path.home() / ".kube" / "config")
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError):
        return DEFAULT  # the client reports the error
    wanted = context or loaded.get("current-context")
    for entry in loaded.get("contexts") or []:
        if entry.get("name") == wanted:
            return str((entry.get("context") or {}).get("namespace") or DEFAULT)
    return DEFAULT


@dataclass(frozen=True)
class Target:
    """The cluster and namespace that the user selected."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None

    @property
    def own_namespace(self) -> str:
        """The selected namespace, else that of the context."""
        return self.namespace or default_namespace(self.kubeconfig, self.context)


class Cluster(ClusterReads):
    """Small writes, besides the reads."""

    async def annotate_pod(self, pod: Mapping[str, Any], annotations: Mapping[str, str]) -> bool:
        """Write annotations on a pod. Return False if it is gone. Raises KubeError."""
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"], "annotations": dict(annotations)}}
        try:
            await self.client.patch(PODS, meta["name"], body, meta["namespace"])
        except (NotFound, Conflict):
            return False
        return True

    async def annotate(self, name: str, annotation: str) -> datetime:
        """Write the current time as an annotation of a Dataset, which is a request to the operator. Return the time."""
        # Whole seconds, like times in a status. Otherwise the answer could look older than the request.
        now = datetime.now(UTC).replace(microsecond=0)
        await self._patch(name, {"metadata": {"annotations": {annotation: now.isoformat()}}})
        return now

    async def warm(self, name: str, changes: Mapping[str, object]) -> Dataset:
        """Patch spec.warm, where None removes a field, and request a warm-up. Return the patched Dataset."""
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
            return read_dataset(await self.client.patch(DATASETS, name, body, self.namespace))
        except NotFound as error:
            raise self.missing(DATASETS, name) from error


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Cluster]:
    """Connect for the duration of a command. Raises CliError for every error of the API server."""
    async with connect_client(target) as client:
        yield Cluster(client, target.own_namespace)


@asynccontextmanager
async def connect_client(target: Target) -> AsyncIterator[KubeClient]:
    """Connect with the plain client for the duration of a command. Raises CliError as ``connect`` does."""
    try:
        async with await KubeClient.connect(target.kubeconfig, target.context) as client:
            yield client
    except NotFound as error:
        raise CliError(
            f"Stoker is not installed in this cluster, or its version does not match: {error}", NOT_FOUND
        ) from error
    except KubeError as error:
        hint = ". Check your network and `kubectl cluster-info`." if error.reason == NO_ANSWER else ""
        raise CliError(f"{error}{hint}", UNREACHABLE) from error

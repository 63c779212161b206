"""Handlers of the buttons. Each does what a command of the CLI does, with the rights of the user."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from stoker_api import names
from stoker_cli.access.cluster import Cluster
from stoker_cli.dashboard.core import cluster_data
from stoker_cli.dashboard.core.links import path_of
from stoker_cli.dashboard.core.views import Frame
from stoker_cli.dashboard.pages import rendering
from stoker_cli.dashboard.server.guard import check_form
from stoker_cli.dashboard.server.scoped_list import resource_of
from stoker_cli.errors import CliError
from stoker_cli.pods import release_pods
from stoker_kube.client import KubeClient
from stoker_kube.errors import Forbidden
from stoker_kube.resources import DATASETS

Change = Callable[[Cluster, str], Awaitable[Any]]

_CHANGES: Mapping[str, tuple[Change, str]] = {
    "warm": (lambda cluster, name: cluster.warm(name, {}), "Requested a warm-up of {}."),
    "pause": (lambda cluster, name: cluster.pause(name, True), "{} is paused."),
    "resume": (lambda cluster, name: cluster.pause(name, False), "{} is warming again."),
    "refresh": (
        lambda cluster, name: cluster.annotate(name, names.ANNOTATION_REFRESH_REQUESTED),
        "Requested a refresh of {}.",
    ),
}


class ActionHandlers:
    """POST handlers. They raise CliError, KubeError and HTTPException, which become error pages."""

    def __init__(self, client: KubeClient, frame: Frame) -> None:
        self._client = client
        self._frame = frame

    async def dataset(self, request: Request) -> HTMLResponse:
        """Warm, pause, resume or refresh a Dataset."""
        await check_form(request, self._frame)
        namespace, name, action = (request.path_params[part] for part in ("namespace", "name", "action"))
        if action not in _CHANGES:
            raise HTTPException(404, "Unknown action.")
        change, sentence = _CHANGES[action]
        try:
            await change(Cluster(self._client, namespace), name)
        except Forbidden as error:
            raise HTTPException(403, cluster_data.no_change(resource_of(DATASETS), namespace)) from error
        return self._answer(sentence.format(f"{namespace}/{name}"), path_of("datasets", namespace, name))

    async def release_pod(self, request: Request) -> HTMLResponse:
        """Release a held pod."""
        return await self._release(request, "pod", "pods")

    async def release_job(self, request: Request) -> HTMLResponse:
        """Release the held pods of a TrainingJob."""
        return await self._release(request, "tj", "jobs")

    async def _release(self, request: Request, prefix: str, view: str) -> HTMLResponse:
        await check_form(request, self._frame)
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        try:
            sentences = await release_pods.release(Cluster(self._client, namespace), f"{prefix}/{name}")
        except CliError as error:
            if isinstance(error.__cause__, Forbidden):
                raise HTTPException(403, str(error)) from error
            raise
        return self._answer(sentences, path_of(view, namespace, name))

    def _answer(self, sentences: str, back: str) -> HTMLResponse:
        return HTMLResponse(rendering.message("Done", sentences, self._frame, back=back))

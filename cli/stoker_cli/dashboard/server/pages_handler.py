"""Handlers of the pages: they look up objects and render their views."""

import time

from starlette.requests import Request
from starlette.responses import HTMLResponse

from stoker_cli.access.cluster import Cluster
from stoker_cli.dashboard.core import cluster_data, dataset_page, job_page, node_page, pod_page
from stoker_cli.dashboard.core.links import PageRequest
from stoker_cli.dashboard.core.overview import MapRequest, overview
from stoker_cli.dashboard.core.views import Frame, PageView
from stoker_cli.dashboard.pages import rendering
from stoker_cli.dashboard.server.cluster_reader import ClusterReader
from stoker_cli.dashboard.server.permissions import UserPermissions
from stoker_cli.dashboard.server.scoped_list import resource_of
from stoker_cli.pods.why_command import explained_pod
from stoker_kube.client import KubeClient
from stoker_kube.resources import DATASETS, PODS, Kind

_MOST_TEXT = 253  # characters of a search, as in a name


class PageHandlers:
    """GET handlers. They raise CliError and KubeError, which become error pages."""

    def __init__(self, client: KubeClient, reader: ClusterReader, permissions: UserPermissions, frame: Frame) -> None:
        self._client = client
        self._reader = reader
        self._permissions = permissions
        self._frame = frame

    async def overview(self, request: Request) -> HTMLResponse:
        """Show totals and the warm map."""
        first, count = max(0, number(request, "first", 0)), max(0, number(request, "count", 0))
        part = MapRequest(first, count, number(request, "page"), text(request))
        return self._answer(overview(self._reader.data, part))

    async def datasets(self, request: Request) -> HTMLResponse:
        """List Datasets."""
        return self._answer(dataset_page.dataset_list(self._reader.data, number(request, "page"), text(request)))

    async def dataset(self, request: Request) -> HTMLResponse:
        """Show a Dataset."""
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        data = self._reader.data
        dataset = data.datasets.get(f"{namespace}/{name}") or await Cluster(self._client, namespace).dataset(name)
        actions = dataset_page.dataset_actions(dataset, await self._refusal(DATASETS, namespace))
        return self._answer(dataset_page.dataset_page(dataset, data, actions, paged(request)))

    async def nodes(self, request: Request) -> HTMLResponse:
        """List nodes."""
        return self._answer(node_page.node_list(self._reader.data, paged(request), text(request)))

    async def node(self, request: Request) -> HTMLResponse:
        """Show a node, as it is now."""
        name, cluster = request.path_params["name"], Cluster(self._client, self._reader.data.namespace)
        cache = await cluster.node_cache(name)
        if cache is None:
            refused = cluster.node_caches_refused
            return self._answer(node_page.missing_node(name, self._reader.data, paged(request), refused=refused))
        return self._answer(node_page.node_page(cache, paged(request)))

    async def jobs(self, request: Request) -> HTMLResponse:
        """List TrainingJobs."""
        return self._answer(job_page.job_list(self._reader.data, number(request, "page")))

    async def job(self, request: Request) -> HTMLResponse:
        """Show a TrainingJob."""
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        data = self._reader.data
        job = data.jobs.get(f"{namespace}/{name}") or await Cluster(self._client, namespace).training_job(name)
        return self._answer(job_page.job_page(job, data, await self._refusal(PODS, namespace), paged(request)))

    async def pods(self, request: Request) -> HTMLResponse:
        """List held pods and pods with figures."""
        return self._answer(pod_page.pod_list(self._reader.data, paged(request)))

    async def pod(self, request: Request) -> HTMLResponse:
        """Explain a pod, as it is now."""
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        cluster = Cluster(self._client, namespace)
        explanation = await explained_pod(cluster, await cluster.pod(name))
        refusal = await self._refusal(PODS, namespace)
        return self._answer(pod_page.pod_page(explanation, self._reader.data, refusal, paged(request)))

    def _answer(self, view: PageView) -> HTMLResponse:
        self._reader.viewed()
        return HTMLResponse(rendering.page(view, self._frame, revision=self._reader.revision))

    async def _refusal(self, kind: Kind, namespace: str) -> str:
        allowed = await self._permissions.may_patch(kind, namespace)
        return "" if allowed else cluster_data.no_change(resource_of(kind), namespace)


def number(request: Request, name: str, default: int = 1) -> int:
    """Return a number of the query, or the default if it is no number."""
    try:
        return int(request.query_params.get(name, default))
    except ValueError:
        return default


def paged(request: Request) -> PageRequest:
    """Return the page numbers of the query, and the time."""
    return PageRequest(time.time(), number(request, "page"), number(request, "held"))


def text(request: Request) -> str:
    """Return the searched text in lower case, as names are."""
    return request.query_params.get("q", "").strip().lower()[:_MOST_TEXT]

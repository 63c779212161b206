"""How kopf is run: no peering (a Lease decides who acts), own finalizer and annotations, no events of its own."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import CoroutineType
from typing import Any

import kopf

from stoker_api import names

SERVER_TIMEOUT = 300  # seconds of one watch request, whole: shorter than what load balancers cut
CONNECT_TIMEOUT = 10.0  # seconds
REQUEST_TIMEOUT = 30.0  # seconds; every request of kopf's is small
RETRY = 5.0  # seconds between attempts of a handler that failed in an unexpected way
EXIT_TIMEOUT = 2.0  # seconds for handlers under way at the end of the process


def make_settings() -> kopf.OperatorSettings:
    """Settings of the embedded kopf."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    # Without it kopf wants to watch CRDs and namespaces of the whole cluster, and needs the rights for that.
    settings.scanning.disabled = True
    settings.persistence.finalizer = names.FINALIZER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=names.GROUP, v1=False)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(
        prefix=names.GROUP, key="last-handled", v1=False
    )
    settings.watching.server_timeout = SERVER_TIMEOUT
    settings.watching.connect_timeout = CONNECT_TIMEOUT
    settings.networking.request_timeout = REQUEST_TIMEOUT
    settings.queueing.exit_timeout = EXIT_TIMEOUT
    settings.execution.default_backoff = RETRY
    return settings


def make_registry() -> kopf.OperatorRegistry:
    """A registry of our own with the login: kopf's default would import two Kubernetes client libraries."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry, id="login")(login)
    return registry


def login(*, settings: kopf.OperatorSettings, **_: Any) -> kopf.ConnectionInfo | None:
    """The pod's ServiceAccount, else the kubeconfig of $KUBECONFIG or ~/.kube/config."""
    return kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)


async def run_kopf(registry: kopf.OperatorRegistry, stop: asyncio.Event, installed: Callable[[], None]) -> None:
    """Run kopf until ``stop``. It puts up signal handlers of its own: ``installed`` is called after that."""
    tasks = await kopf.spawn_tasks(
        registry=registry, settings=make_settings(), standalone=True, clusterwide=True, stop_flag=stop
    )
    installed()
    await kopf.run_tasks(tasks, ignored=_Foreign())


class _Foreign(Collection[asyncio.Task[Any]]):
    """All tasks that kopf did not start. At its end kopf cancels every task but the ignored ones, and in this process
    there are others': requests that the webhook is answering, the Lease, the watches."""

    _KOPF = str(Path(kopf.__file__).parent)

    def __contains__(self, task: object) -> bool:
        coroutine = task.get_coro() if isinstance(task, asyncio.Task) else None
        return not (isinstance(coroutine, CoroutineType) and coroutine.cr_code.co_filename.startswith(self._KOPF))

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return (task for task in asyncio.all_tasks() if task in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

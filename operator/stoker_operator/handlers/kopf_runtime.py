"""Runs kopf in a thread with a separate event loop, on every replica. It leaves no trace on objects."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Final

import kopf

from stoker_api import names
from stoker_api.backoff import Backoff
from stoker_kube.api import Object
from stoker_kube.resources import DATASETS, TRAINING_JOBS, Kind

log = logging.getLogger(__name__)

GOODBYE = 0.25  # seconds in which TLS connections end after aiohttp closed them; aiohttp's documentation asks for this
STOP_TIMEOUT = 4.0  # seconds for kopf as a whole; the thread does not keep the process alive
Deliver = Callable[[Kind, str | None, Object], object]


def make_settings() -> kopf.OperatorSettings:
    """Return the settings of the embedded kopf. Times are in seconds."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    # Otherwise kopf watches CRDs and namespaces of the whole cluster, and needs the rights for that.
    settings.scanning.disabled = True
    # kopf removes its finalizer from objects that no handler wants to hold: it needs a name that no object has.
    settings.persistence.finalizer = f"{names.GROUP}/unused"
    settings.watching.server_timeout = 300  # of a whole watch request: shorter than load balancers' limits
    # With bookmarks the server sends something about once a minute: a silence this long is a dead connection.
    settings.watching.inactivity_timeout = 150.0
    settings.watching.connect_timeout = 10.0
    settings.networking.request_timeout = 30.0  # all of kopf's requests are small
    settings.queueing.exit_timeout = 2.0  # for running handlers at the end of the process
    return settings


def make_registry(deliver: Deliver) -> kopf.OperatorRegistry:
    """Return a registry that calls ``deliver(kind, event, object)`` in kopf's thread for each event of both kinds.

    It uses ``kopf.on.event``, which writes nothing. With create, update or delete handlers kopf would add annotations
    and a finalizer to users' objects. The login is its own: kopf's default imports two Kubernetes client libraries.
    """
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry, id="login")(login)
    for kind in (DATASETS, TRAINING_JOBS):
        on_event = kopf.on.event(names.GROUP, names.VERSION, kind.plural, registry=registry, id=kind.plural)
        on_event(_handler(kind, deliver))
    return registry


def login(*, settings: kopf.OperatorSettings, **_: Any) -> kopf.ConnectionInfo | None:
    """Log in as the pod's ServiceAccount, else with the kubeconfig of $KUBECONFIG or ~/.kube/config."""
    return kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)


def _handler(kind: Kind, deliver: Deliver) -> Callable[..., Any]:
    async def handle(*, event: kopf.RawEvent, **_: Any) -> None:
        with suppress(RuntimeError):  # the main loop is closed already
            deliver(kind, event["type"], dict(event["object"]))

    return handle


class KopfThread:
    """Runs kopf and restarts it whenever it ends, until cancelled.

    kopf assumes that it owns its event loop: at its end it cancels every task there. In the main thread it also takes
    the process's signals. In a separate thread it sees only its tasks and no signals.
    """

    def __init__(self, registry: kopf.OperatorRegistry, backoff: Backoff | None = None) -> None:
        self._registry: Final = registry
        self._backoff: Final = backoff or Backoff(first=1.0)
        self._stop: Future[None] = Future()

    def restart(self) -> None:
        """End the present run, so that a new one starts."""
        with suppress(InvalidStateError):  # it ends already
            self._stop.set_result(None)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._stop, end = Future(), Future[str]()
            threading.Thread(target=self._work, args=(self._stop, end), name="kopf", daemon=True).start()
            ended = asyncio.wrap_future(end)
            try:
                await asyncio.wait({ended})
            finally:
                self.restart()
                await asyncio.wait({ended}, timeout=STOP_TIMEOUT)
            wait = self._backoff.next()
            log.warning("kopf has ended (%s) and is started again in %.1f s", ended.result(), wait)
            await asyncio.sleep(wait)

    def _work(self, stop: "Future[None]", end: "Future[str]") -> None:
        try:
            asyncio.run(self._serve(stop))
            end.set_result("it was asked to")
        except Exception as error:  # noqa: BLE001 -- the boundary of the thread: its owner restarts it
            end.set_result(repr(error))

    async def _serve(self, stop: "Future[None]") -> None:
        # A future of this loop: for one of another kind kopf would leave a waiting thread behind.
        flag = asyncio.wrap_future(stop)
        try:
            await kopf.operator(
                registry=self._registry, settings=make_settings(), standalone=True, clusterwide=True, stop_flag=flag
            )
        finally:
            await asyncio.sleep(GOODBYE)

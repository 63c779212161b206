"""How kopf is run.

In a thread with an event loop of its own, on every replica, without peering and without a trace on objects.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

import kopf

from stoker_api import names
from stoker_api.backoff import Backoff

log = logging.getLogger(__name__)

SERVER_TIMEOUT = 300  # seconds of one watch request, whole: shorter than what load balancers cut
# Seconds. With bookmarks the server says something about once a minute: a silence of this length is a dead connection.
INACTIVITY_TIMEOUT = 150.0
CONNECT_TIMEOUT = 10.0  # seconds
REQUEST_TIMEOUT = 30.0  # seconds; every request of kopf's is small
EXIT_TIMEOUT = 2.0  # seconds for handlers under way at the end of the process
GOODBYE = 0.25  # seconds in which TLS connections end after aiohttp closed them; its documentation asks for this
STOP_TIMEOUT = 4.0  # seconds for kopf as a whole; the thread does not keep the process
# kopf takes away a finalizer of its own name from objects that no handler of it wants to hold. Ours is our
# reconciler's, so kopf's must be another one, which nobody ever writes.
UNUSED_FINALIZER = f"{names.GROUP}/unused"


def make_settings() -> kopf.OperatorSettings:
    """Make the settings of the embedded kopf."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    # Without it kopf wants to watch CRDs and namespaces of the whole cluster, and needs the rights for that.
    settings.scanning.disabled = True
    settings.persistence.finalizer = UNUSED_FINALIZER
    settings.watching.server_timeout = SERVER_TIMEOUT
    settings.watching.inactivity_timeout = INACTIVITY_TIMEOUT
    settings.watching.connect_timeout = CONNECT_TIMEOUT
    settings.networking.request_timeout = REQUEST_TIMEOUT
    settings.queueing.exit_timeout = EXIT_TIMEOUT
    return settings


def make_registry() -> kopf.OperatorRegistry:
    """Make a registry of our own with the login: kopf's default would import two Kubernetes client libraries."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry, id="login")(login)
    return registry


def login(*, settings: kopf.OperatorSettings, **_: Any) -> kopf.ConnectionInfo | None:
    """Log in as the pod's ServiceAccount, else by the kubeconfig of $KUBECONFIG or ~/.kube/config."""
    return kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)


class KopfThread:
    """A runner of kopf, which starts it again whenever it ends, until it is cancelled.

    kopf believes that its event loop is its own: at its end it cancels every task that it finds there, and in the main
    thread it takes the process's signals. In a thread of its own it finds its own tasks and no signals.
    """

    def __init__(self, registry: kopf.OperatorRegistry, backoff: Backoff | None = None) -> None:
        self._registry: Final = registry
        self._backoff: Final = backoff or Backoff(first=1.0)
        self._stop: Callable[[], None] = lambda: None

    def restart(self) -> None:
        """End the present run, which begins a new one."""
        self._stop()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            run = _Run(self._registry)
            self._stop = run.stop
            try:
                await asyncio.wait({run.ended})
            finally:
                run.stop()
                await run.wait_stopped(STOP_TIMEOUT)
            wait = self._backoff.next()
            log.warning("kopf has ended (%s) and is started again in %.1f s", run.ended.result(), wait)
            await asyncio.sleep(wait)


class _Run:
    """One run of kopf in one thread. ``ended`` is set in the loop that made this, to the reason."""

    def __init__(self, registry: kopf.OperatorRegistry) -> None:
        self._registry: Final = registry
        self._main: Final = asyncio.get_running_loop()
        self.ended: Final[asyncio.Future[str]] = self._main.create_future()
        self._inside: asyncio.AbstractEventLoop | None = None
        self._stopping: Final = threading.Event()
        self._flag: asyncio.Event | None = None
        self._thread: Final = threading.Thread(target=self._work, name="kopf", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask kopf to end; may be called from any thread, and twice."""
        self._stopping.set()
        inside, flag = self._inside, self._flag
        if inside is not None and flag is not None:
            try:
                inside.call_soon_threadsafe(flag.set)
            except RuntimeError:
                log.debug("kopf's loop is closed already")

    async def wait_stopped(self, seconds: float) -> None:
        """Wait for the thread, at most so long."""
        await asyncio.wait({self.ended}, timeout=seconds)

    def _work(self) -> None:
        reason = "it was asked to"
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 -- the boundary of the thread: whoever runs it starts it again
            reason = repr(error)
        try:
            self._main.call_soon_threadsafe(self._end, reason)
        except RuntimeError:
            log.debug("the loop that waited for kopf is closed already")

    def _end(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    async def _serve(self) -> None:
        # An asyncio flag: for one of threading's kopf would leave a waiting thread behind, which this loop then waits
        # for.
        self._inside, self._flag = asyncio.get_running_loop(), asyncio.Event()
        if self._stopping.is_set():
            return
        try:
            await kopf.operator(
                registry=self._registry,
                settings=make_settings(),
                standalone=True,
                clusterwide=True,
                stop_flag=self._flag,
            )
        finally:
            await asyncio.sleep(GOODBYE)

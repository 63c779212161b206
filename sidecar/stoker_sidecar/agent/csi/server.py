"""Serves the driver on its two unix sockets: CSI for the kubelet's calls, registration for its plugin watcher."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from stoker_api import names
from stoker_sidecar.agent.csi.rpc import Observe, handler
from stoker_sidecar.agent.csi.services import IdentityService, NodeService, RegistrationService
from stoker_sidecar.volumes.publisher import Publisher

# Calls that still run at a stop may finish a mount; the agent as a whole stops in 5 s.
STOP_SECONDS = 2.0


@dataclass(frozen=True)
class Driver:
    """Who the driver is and where. ``kubelet_dir`` as the kubelet itself names it, e.g. /var/lib/kubelet."""

    node_name: str
    version: str
    kubelet_dir: Path

    @property
    def csi_socket(self) -> Path:
        """Where the kubelet calls."""
        return self.kubelet_dir / "plugins" / names.CSI_DRIVER / "csi.sock"

    @property
    def registration_socket(self) -> Path:
        """Where the kubelet finds the driver."""
        return self.kubelet_dir / "plugins_registry" / f"{names.CSI_DRIVER}-reg.sock"


@contextlib.asynccontextmanager
async def serve_driver(
    driver: Driver, publisher: Publisher, is_ready: Callable[[], bool], observe: Observe
) -> AsyncIterator[RegistrationService]:
    """Serve both sockets while inside. Registration opens last, since the kubelet calls the other one at once."""
    identity = handler("csi.v1.Identity", IdentityService(driver.version, is_ready).methods(), observe)
    node = handler("csi.v1.Node", NodeService(driver.node_name, driver.kubelet_dir, publisher).methods(), observe)
    registration = RegistrationService(driver.csi_socket)
    registrar = handler("pluginregistration.Registration", registration.methods(), observe)
    async with serve(driver.csi_socket, [identity, node]), serve(driver.registration_socket, [registrar]):
        yield registration


@contextlib.asynccontextmanager
async def serve(socket: Path, handlers: Sequence["grpc.GenericRpcHandler[Any, Any]"]) -> AsyncIterator[None]:
    """Serve handlers on a unix socket while inside; a socket that a killed agent left behind is replaced."""
    _make_room(socket)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(tuple(handlers))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(STOP_SECONDS)
        _make_room(socket)


def _make_room(socket: Path) -> None:
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)

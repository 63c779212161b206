"""uvicorn with limits of connections and of the time to a request; uvicorn itself waits for a request forever."""

import asyncio
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, cast

import uvicorn
from starlette.types import Scope

from stoker_cli.errors import CliError
from stoker_kube.serving.bounded_listener import BoundedListener
from stoker_kube.serving.connections import Connection, ConnectionLimits, Connections

# A connection is trusted from its first request with a session. Behind an Ingress, all users have one address.
_LIMITS = ConnectionLimits(
    strangers=128, strangers_per_address=32, trusted=384, trusted_per_address=256, seconds=10.0, prefer_known=False
)
_TRUST = "trust_connection"


class BoundedServer(uvicorn.Server):
    """A server on all addresses of the pod. Connections without a session end after 10 s, TLS handshake included."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._connections: Final = Connections(_LIMITS)
        self._listener: Final = BoundedListener(self._connections, self._protocol, tls=config.ssl)

    @classmethod
    async def listen(cls, config: uvicorn.Config, port: int) -> Self:
        """Return a server that listens. ``config`` is loaded. Raises CliError."""
        server = cls(config)
        try:
            await server._listener.start(None, port)
        except OSError as error:
            raise CliError(f"--port {port} is not available: {error.strerror}. Use another port.") from error
        return server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType) -> None:
        await self._listener.stop()

    async def shutdown(self, sockets: Any = None) -> None:
        """See uvicorn.Server. Stop listening first."""
        await self._listener.stop()
        await super().shutdown(sockets)

    def _protocol(self, connection: Connection) -> asyncio.Protocol:
        state = {_TRUST: partial(self._connections.trust, connection)}
        make = cast(Callable[..., asyncio.Protocol], self.config.http_protocol_class)
        return make(config=self.config, server_state=self.server_state, app_state=state)


def trust(scope: Scope) -> None:
    """Mark the connection of a request with a session as trusted, so that it may stay open."""
    if mark := scope.get("state", {}).get(_TRUST):
        mark()

"""A listening site for aiohttp that bounds its connections."""

import asyncio
import ssl
from typing import Final

from aiohttp import web

from stoker_api.datasets.endpoint import host_port
from stoker_kube.serving.bounded_listener import BoundedListener, TrackedProtocol
from stoker_kube.serving.connections import Connection, Connections


class BoundedSite(web.BaseSite):
    """A TCP or TLS site of ``runner`` within the limits of ``connections``.

    ``by_certificate``: the TLS context requires client certificates, so a completed handshake makes a connection
    trusted. Otherwise ``trust`` does. Where neither happens (``limits.trusted`` is 0), the runner's
    ``keepalive_timeout``, half of ``limits.seconds``, bounds the time from the first bytes to the request head.
    """

    def __init__(
        self,
        runner: web.AppRunner,
        host: str | None,
        port: int,
        connections: Connections,
        *,
        tls: ssl.SSLContext | None = None,
        by_certificate: bool = False,
    ) -> None:
        super().__init__(runner, ssl_context=tls)
        self._host: Final = host
        self._port = port
        self._connections: Final = connections
        self._listener: Final = BoundedListener(connections, self._handler, tls=tls, by_certificate=by_certificate)

    @property
    def name(self) -> str:
        """The URL, for aiohttp."""
        return f"{'https' if self._ssl_context else 'http'}://{host_port(self._host or '*', self._port)}"

    @property
    def port(self) -> int:
        """The bound port; the one asked for until started."""
        return self._port

    async def start(self) -> None:
        """Bind and accept until ``stop``. Raises OSError when the port is taken."""
        await super().start()
        self._port = await self._listener.start(self._host, self._port)

    async def stop(self) -> None:
        """Stop accepting. Open connections stay until their requests are answered."""
        await self._listener.stop()
        await super().stop()

    def trust(self, request: web.BaseRequest) -> None:
        """Mark the connection of an authorized request as trusted."""
        tracked = request.transport.get_protocol() if request.transport is not None else None
        if isinstance(tracked, TrackedProtocol):
            self._connections.trust(tracked.connection)

    def _handler(self, _: Connection) -> asyncio.Protocol:
        assert self._runner.server is not None
        return self._runner.server()

"""Runs the page in a pod until it is ended. The pod has no token: each request to the API server has a user's."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from uvicorn import Config

from stoker_cli.dashboard.cluster.bounded_server import BoundedServer
from stoker_cli.dashboard.cluster.gate import UserGate
from stoker_cli.dashboard.cluster.sign_in import SignInHandlers
from stoker_cli.dashboard.cluster.user_sessions import UserSessions
from stoker_cli.dashboard.server.run import server_config
from stoker_cli.errors import UNREACHABLE, CliError
from stoker_kube.client import KubeClient
from stoker_kube.errors import KubeError

_PERIOD = 60.0  # seconds between two looks for old sessions and new certificates


@dataclass(frozen=True)
class ServerOptions:
    """Where to listen. ``certificates``: folder with tls.crt and tls.key; None: no TLS. ``authority``: with ca.crt."""

    port: int
    authority: Path
    certificates: Path | None = None


async def serve(options: ServerOptions) -> None:
    """Serve until cancelled. Raises CliError."""
    try:
        client = KubeClient.anonymous(options.authority)
    except KubeError as error:
        raise CliError(str(error), UNREACHABLE) from error
    async with client:
        sessions = UserSessions()
        config = _config(options, UserGate(sessions, SignInHandlers(client.as_bearer, sessions)))
        async with await BoundedServer.listen(config, options.port) as server, asyncio.TaskGroup() as tasks:
            upkeep = tasks.create_task(_upkeep(sessions, config, options))
            await server.serve(sockets=[])
            upkeep.cancel()
            sessions.end_all()


def _config(options: ServerOptions, app: UserGate) -> Config:
    folder = options.certificates
    files = {} if folder is None else {"ssl_certfile": folder / "tls.crt", "ssl_keyfile": folder / "tls.key"}
    config = server_config(app, None, **files)  # BoundedServer has the limits
    try:
        config.load()
    except OSError as error:
        raise CliError(f"Cannot use tls.crt and tls.key in {folder}: {error}") from error
    return config


async def _upkeep(sessions: UserSessions, config: Config, options: ServerOptions) -> None:
    while True:
        await asyncio.sleep(_PERIOD)
        sessions.sweep()
        if config.ssl is not None and options.certificates is not None:  # the Secret may be renewed
            config.ssl.load_cert_chain(options.certificates / "tls.crt", options.certificates / "tls.key")

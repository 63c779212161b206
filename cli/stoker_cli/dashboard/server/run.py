"""Runs the server on a loopback port until it is interrupted."""

import asyncio
import socket
import webbrowser
from typing import Any

import click
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from stoker_cli.access.cluster import Target
from stoker_cli.dashboard.server.app import make_app
from stoker_cli.dashboard.server.cluster_reader import ClusterReader
from stoker_cli.dashboard.server.session import BrowserSession
from stoker_cli.errors import UNREACHABLE, CliError
from stoker_kube.client import KubeClient
from stoker_kube.errors import KubeError

_LOOPBACK = "127.0.0.1"
_MOST_CONNECTIONS = 64


async def serve(target: Target, port: int, *, browser: bool) -> None:
    """Serve until cancelled. ``port`` 0 takes a free one. Raises CliError."""
    with open_socket(port) as listener:
        session = BrowserSession(listener.getsockname()[1])
        try:
            client = await KubeClient.connect(target.kubeconfig, target.context)
        except KubeError as error:
            raise CliError(str(error), UNREACHABLE) from error
        async with client:
            reader = ClusterReader(client, target.own_namespace)
            _announce(session, browser=browser)
            await serve_app(make_app(client, reader, session), reader, listener)


def open_socket(port: int) -> socket.socket:
    """Return a listening socket on 127.0.0.1. Raises CliError."""
    try:
        return socket.create_server((_LOOPBACK, port))
    except OSError as error:
        raise CliError(
            f"--port {port} is not available: {error.strerror}. Use another port, or 0 for a free one."
        ) from error


def _announce(session: BrowserSession, *, browser: bool) -> None:
    click.echo(f"Open {session.url}\nThe address works once. Ctrl-C ends the server.")
    if browser:
        webbrowser.open(session.url)


def server_config(app: ASGIApp, most_connections: int | None, **more: Any) -> uvicorn.Config:
    """Return the configuration of a server. ``most_connections`` None: no limit. ``more``: options of uvicorn."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        limit_concurrency=most_connections,
        timeout_graceful_shutdown=1,
        **more,
    )


async def serve_app(app: Starlette, reader: ClusterReader, listener: socket.socket) -> None:
    """Serve the application on a socket, and read the cluster, until cancelled."""
    server = uvicorn.Server(server_config(app, _MOST_CONNECTIONS))
    async with asyncio.TaskGroup() as tasks:  # an error of the reader ends the server
        reading = tasks.create_task(reader.run())
        await server.serve(sockets=[listener])
        reading.cancel()

"""Servers of pages in threads, and what Chromium does with the pages."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from playwright.sync_api import Page
from starlette.types import ASGIApp

from stoker_cli.dashboard.server.run import open_socket, server_config


@contextmanager
def served(app: ASGIApp, port: int, work: Coroutine[Any, Any, None] | None = None) -> Iterator[None]:
    """Serve an application on a loopback port, with this work in the background."""
    server = uvicorn.Server(server_config(app, 64))

    async def run() -> None:
        task = asyncio.ensure_future(work) if work is not None else None
        with open_socket(port) as listener:
            await server.serve(sockets=[listener])
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await _close_late_connections(server)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


async def _close_late_connections(server: uvicorn.Server) -> None:
    """Close the connections that Chromium opened while the server stopped: they have a task, or are not counted."""
    late = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*late, return_exceptions=True)
    for connection in tuple(server.server_state.connections):
        connection.transport.abort()
    await asyncio.sleep(0)


class Witness:
    """What a page did that it must not: errors, violated policies, requests to other servers."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.addresses: list[str] = []
        page.on("console", lambda line: self.errors.append(line.text) if line.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.addresses.append(request.url))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', (event) => console.error(event.violatedDirective))"
        )

    def foreign(self, origin: str) -> list[str]:
        """Return the requests to other servers."""
        return [url for url in self.addresses if not url.startswith(f"{origin}/")]

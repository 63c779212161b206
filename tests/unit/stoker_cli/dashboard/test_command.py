"""The command `stoker dashboard`, and its server."""

import asyncio
import builtins
from typing import Any, cast

import httpx2
import pytest
from click.testing import CliRunner

from stoker_cli.dashboard.server import run
from stoker_cli.dashboard.server.app import make_app
from stoker_cli.dashboard.server.cluster_reader import ClusterReader
from stoker_cli.dashboard.server.session import BrowserSession
from stoker_cli.errors import CliError
from stoker_cli.main import main
from stoker_kube.client import KubeClient
from stoker_kube.resources import DATASETS
from tests.unit.stoker_cli.dashboard.users import cluster, dataset


class Connection:
    """A client that connects to nothing."""

    async def __aenter__(self) -> "Connection":
        return self

    async def __aexit__(self, *_: object) -> None:
        return


def test_without_the_extra_the_command_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "uvicorn":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    result = CliRunner().invoke(main, ["dashboard"])
    assert result.exit_code == 1
    assert "pip install 'stoker[dashboard]'" in result.output


def test_a_port_in_use_is_an_error() -> None:
    with run.open_socket(0) as taken, pytest.raises(CliError, match="is not available"):
        run.open_socket(taken.getsockname()[1])


def test_only_this_machine_can_connect() -> None:
    with run.open_socket(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("options", [[], ["--no-browser"]])
def test_the_address_is_printed_and_opened(monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    async def connected(*_: object) -> KubeClient:
        return cast(KubeClient, Connection())

    async def served(*_: object) -> None:
        return

    opened: list[str] = []
    monkeypatch.setattr(KubeClient, "connect", connected)
    monkeypatch.setattr(run, "serve_app", served)
    monkeypatch.setattr("webbrowser.open", opened.append)
    output = CliRunner().invoke(main, ["-n", "vision", "dashboard", *options]).output
    address = output.split()[1]
    assert address.startswith("http://127.0.0.1:")
    assert opened == ([] if options else [address])


async def test_an_error_of_the_reader_ends_the_server() -> None:
    class Broken(ClusterReader):
        async def run(self) -> None:
            raise ValueError("broken")

    kube = cluster()
    reader = Broken(kube, "vision")
    with run.open_socket(0) as listener, pytest.raises(ExceptionGroup):
        await run.serve_app(make_app(cast(KubeClient, kube), reader, BrowserSession(1)), reader, listener)


async def test_the_server_shows_the_page_and_streams_changes() -> None:
    kube = cluster()
    reader = ClusterReader(kube, "vision")
    with run.open_socket(0) as listener:
        session = BrowserSession(listener.getsockname()[1])
        serving = asyncio.create_task(
            run.serve_app(make_app(cast(KubeClient, kube), reader, session), reader, listener)
        )
        try:
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{session.port}", timeout=30) as browser:
                assert (await browser.get(session.url)).status_code == 200
                page = (await browser.get("/")).text
                since = page.partition('data-revision="')[2].partition('"')[0]
                async with browser.stream("GET", f"/events?since={since}") as stream:
                    kube.seed(DATASETS, dataset("vision", "new"))
                    lines = stream.aiter_lines()
                    assert await anext(lines) == "event: change"
                answer = await browser.get("/")
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
    assert "Warm map" in answer.text
    assert "server" not in answer.headers

"""The server of the page in a pod."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stoker_cli.dashboard.cluster import serve as server
from stoker_cli.dashboard.cluster.serve import ServerOptions, serve
from stoker_cli.errors import CliError
from stoker_kube.client import KubeClient
from tests.support.certificates import ServerCertificate, server_certificate
from tests.support.ports import free_ports


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServerCertificate:
    """Set the variables of a pod, with a CA and no token. Nothing answers at the API server's address."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    return server_certificate(tmp_path)


def options(pod: ServerCertificate, **changes: Any) -> ServerOptions:
    [port] = free_ports(1)
    return ServerOptions(port, pod.authority.parent, **changes)


async def answer(given: ServerOptions, url: str, **client: Any) -> httpx2.Response:
    """Serve, and return the answer of a request."""
    serving = asyncio.create_task(serve(given))
    try:
        async with httpx2.AsyncClient(timeout=30, **client) as browser, asyncio.timeout(60):
            while True:
                try:
                    return await browser.get(url)
                except httpx2.ConnectError:
                    assert not serving.done(), serving.exception()
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_the_pod_needs_no_token(pod: ServerCertificate) -> None:
    given = options(pod)
    shown = await answer(given, f"http://127.0.0.1:{given.port}/sign-in")
    assert "Sign in to Stoker" in shown.text


async def test_with_a_certificate_the_page_has_tls(pod: ServerCertificate) -> None:
    given = options(pod, certificates=pod.certificate.parent)
    trusting = ssl.create_default_context(cafile=pod.authority)
    shown = await answer(given, f"https://127.0.0.1:{given.port}/healthz", verify=trusting)
    assert shown.text == "ok"


async def test_a_missing_certificate_is_named(pod: ServerCertificate, tmp_path: Path) -> None:
    with pytest.raises(CliError, match=r"Cannot use tls\.crt and tls\.key in"):
        await serve(options(pod, certificates=tmp_path / "none"))


async def test_outside_a_pod_the_server_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="KUBERNETES_SERVICE_HOST"):
        await serve(ServerOptions(1, tmp_path))


async def test_a_request_without_a_user_has_no_credentials(pod: ServerCertificate, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("the-token-of-the-pod")
    async with KubeClient.anonymous(tmp_path) as client:
        assert await client._transport._authorized() == {}
        assert await client.as_bearer("mine")._transport._authorized() == {"Authorization": "Bearer mine"}


async def test_a_renewed_certificate_is_used(pod: ServerCertificate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_PERIOD", 0.01)
    given = options(pod, certificates=pod.certificate.parent)
    serving = asyncio.create_task(serve(given))
    try:
        await _certificate(given)
        before = await _certificate(given)
        server_certificate(pod.certificate.parent)
        async with asyncio.timeout(30):
            while await _certificate(given) == before:
                pass
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def _certificate(given: ServerOptions) -> str:
    """Return the certificate that the server shows."""
    while True:
        try:
            return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", given.port))
        except ConnectionError:
            continue

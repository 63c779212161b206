"""Manifests are for those who show the sidecars' certificate; all others learn nothing."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from stoker_api.names import PEER_NAME, PEER_SECRET
from stoker_kube.resources import SECRETS
from stoker_operator.webhook.certs import renewed_peer
from stoker_sidecar.agent.peers import PeerServer
from stoker_sidecar.wire.peer_tls import FILE, PeerTls, left
from tests.fakes.kube import FakeKube
from tests.support.peers import make_peer_secret, peer_tls
from tests.support.ports import free_ports
from tests.support.waiting import eventually


async def manifest(_: web.Request) -> web.Response:
    return web.Response(text="names of files")


@asynccontextmanager
async def serving(kube: FakeKube, folder: Path) -> AsyncIterator[int]:
    """Run a server; gives its port once it answers."""
    application = web.Application()
    application.router.add_get("/manifest", manifest)
    port = free_ports(1)[0]
    task = asyncio.create_task(PeerServer(kube, "stoker", application, port, folder).run())
    await eventually((folder / FILE).exists)
    yield port
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def ask(port: int, tls: ssl.SSLContext | bool, scheme: str = "https") -> str:
    """Return the answer; raises what the connection ends with."""
    url = f"{scheme}://127.0.0.1:{port}/manifest"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=tls, server_hostname=PEER_NAME) as answer:
        return await answer.text()


@pytest.fixture
async def kube() -> FakeKube:
    fake = FakeKube()
    await make_peer_secret(fake, "stoker")
    return fake


def known(folder: Path) -> PeerTls:
    found = left(folder)
    assert found is not None
    return found


async def test_another_node_is_answered(kube: FakeKube, tmp_path: Path) -> None:
    async with serving(kube, tmp_path) as port:
        assert await ask(port, known(tmp_path).client_context()) == "names of files"


def trusting() -> ssl.SSLContext:
    """Return what a pod of a tenant would ask with: it does not care who answers, and has nothing to show."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def shows_its_own() -> ssl.SSLContext:
    """Return what asks with a certificate by another authority of the same name."""
    context = peer_tls().client_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize("client", [trusting, shows_its_own])
async def test_nobody_else_is_answered(kube: FakeKube, tmp_path: Path, client: Callable[[], ssl.SSLContext]) -> None:
    async with serving(kube, tmp_path) as port:
        with pytest.raises(aiohttp.ClientError):
            await ask(port, client())


async def test_without_tls_nobody_is_answered(kube: FakeKube, tmp_path: Path) -> None:
    async with serving(kube, tmp_path) as port:
        with pytest.raises(aiohttp.ClientError):
            await ask(port, True, scheme="http")


async def test_a_node_believes_no_server_that_only_has_its_address(tmp_path: Path) -> None:
    impostor = FakeKube()
    await make_peer_secret(impostor, "stoker")
    async with serving(impostor, tmp_path) as port:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await ask(port, peer_tls().client_context())


async def test_a_renewed_certificate_is_served_and_the_old_one_is_still_believed(
    kube: FakeKube, tmp_path: Path
) -> None:
    async with serving(kube, tmp_path) as port:
        old = known(tmp_path)
        renewed = renewed_peer(None, datetime.now(UTC))
        bundle = renewed.authorities + old.authorities.encode()
        await replace(kube, bundle, renewed.certificate, renewed.key)
        await eventually(lambda: known(tmp_path) != old)
        assert await ask(port, known(tmp_path).client_context()) == "names of files"
        behind = PeerTls(known(tmp_path).authorities, old.certificate, old.key).client_context()
        assert await ask(port, behind) == "names of files"


async def replace(kube: FakeKube, authorities: bytes, certificate: bytes, key: bytes) -> None:
    """Write the Secret anew."""
    content = {"ca.crt": authorities, "tls.crt": certificate, "tls.key": key}
    data = {name: base64.b64encode(value).decode() for name, value in content.items()}
    await kube.patch(SECRETS, PEER_SECRET, {"data": data}, "stoker")


@pytest.mark.expected_logs("cannot be used, its last content stays")
async def test_a_secret_that_does_not_parse_changes_nothing(kube: FakeKube, tmp_path: Path) -> None:
    async with serving(kube, tmp_path) as port:
        await replace(kube, b"", b"none", b"none")
        assert await ask(port, known(tmp_path).client_context()) == "names of files"

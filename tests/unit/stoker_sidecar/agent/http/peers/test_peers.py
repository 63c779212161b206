"""Manifests are for nodes with their own certificate. Any other client learns nothing."""

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

from stoker_api.node_caches.peers import PEER_NAME, PeerCertificate
from stoker_operator.webhook.peer_authority import AUTHORITY_LIFE, PeerAuthority, PeerSigner, renewed_authority
from stoker_sidecar.agent.http.peers.peer_server import PeerIdentity, PeerServer
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.wire.config.peer_tls import FILE, PeerTls, left
from tests.support.peers import new_authority, peer_tls
from tests.support.ports import free_ports
from tests.support.waiting import eventually


async def manifest(_: web.Request) -> web.Response:
    return web.Response(text="names of files")


class Node:
    """A node with an identity, and the authority that signs for it."""

    def __init__(self, authority: PeerAuthority | None = None) -> None:
        self.plan, self.identity = NodePlan(), PeerIdentity()
        self.certify(authority or new_authority())

    def certify(self, authority: PeerAuthority) -> None:
        """Put another certificate into its plan."""
        self.plan.peer = PeerSigner(authority).sign("n", self.identity.public_key, datetime.now(UTC))
        self.plan.changes.mark()


@asynccontextmanager
async def serving(node: Node, folder: Path) -> AsyncIterator[int]:
    """Run a server. Yields its port once it answers."""
    application = web.Application()
    application.router.add_get("/manifest", manifest)
    port = free_ports(1)[0]
    task = asyncio.create_task(PeerServer(node.plan, node.identity, application, port, folder).run())
    await eventually((folder / FILE).exists)
    yield port
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def ask(port: int, tls: ssl.SSLContext | bool, scheme: str = "https") -> str:
    """Return the response. Raises the error that ends the connection."""
    url = f"{scheme}://127.0.0.1:{port}/manifest"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=tls, server_hostname=PEER_NAME) as answer:
        return await answer.text()


@pytest.fixture
def node() -> Node:
    return Node()


def known(folder: Path) -> PeerTls:
    found = left(folder)
    assert found is not None
    return found


async def test_another_node_is_answered(node: Node, tmp_path: Path) -> None:
    async with serving(node, tmp_path) as port:
        assert await ask(port, known(tmp_path).client_context()) == "names of files"


def trusting() -> ssl.SSLContext:
    """Return the TLS context of a tenant's pod: it does not verify the server, and has no certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def shows_its_own() -> ssl.SSLContext:
    """Return a TLS context with a certificate of another authority of the same name."""
    context = peer_tls().client_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize("client", [trusting, shows_its_own])
async def test_nobody_else_is_answered(node: Node, tmp_path: Path, client: Callable[[], ssl.SSLContext]) -> None:
    async with serving(node, tmp_path) as port:
        with pytest.raises(aiohttp.ClientError):
            await ask(port, client())


async def test_without_tls_nobody_is_answered(node: Node, tmp_path: Path) -> None:
    async with serving(node, tmp_path) as port:
        with pytest.raises(aiohttp.ClientError):
            await ask(port, True, scheme="http")


async def test_a_node_believes_no_server_that_only_has_its_address(tmp_path: Path) -> None:
    async with serving(Node(), tmp_path) as port:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await ask(port, peer_tls().client_context())


async def test_a_renewed_certificate_is_served_and_the_last_authority_is_still_believed(tmp_path: Path) -> None:
    authority = renewed_authority(None, datetime.now(UTC) - AUTHORITY_LIFE * 0.7)
    node = Node(authority)
    async with serving(node, tmp_path) as port:
        old = known(tmp_path)
        node.certify(renewed_authority(authority, datetime.now(UTC)))
        await eventually(lambda: known(tmp_path) != old)
        behind = PeerTls(known(tmp_path).authorities, old.certificate, old.key)
        for asking in (known(tmp_path), behind):
            assert await ask(port, asking.client_context()) == "names of files"


async def test_a_certificate_for_another_key_changes_nothing(node: Node, tmp_path: Path) -> None:
    async with serving(node, tmp_path) as port:
        old = known(tmp_path)
        node.plan.peer = PeerSigner(new_authority()).sign("n", PeerIdentity().public_key, datetime.now(UTC))
        node.plan.changes.mark()
        assert await ask(port, old.client_context()) == "names of files"
        assert known(tmp_path) == old


@pytest.mark.expected_logs("the operator took away the certificate")
async def test_a_node_whose_certificate_is_taken_away_serves_and_asks_nobody(node: Node, tmp_path: Path) -> None:
    async with serving(node, tmp_path) as port:
        asking = known(tmp_path).client_context()
        node.plan.peer = PeerCertificate()
        node.plan.changes.mark()
        await eventually(lambda: left(tmp_path) is None)
        with pytest.raises(aiohttp.ClientConnectorError):
            await ask(port, asking)


def test_the_key_is_another_one_in_each_process_and_its_secret_half_is_told_to_nobody() -> None:
    one, other = PeerIdentity(), PeerIdentity()
    assert one.public_key != other.public_key
    assert "PRIVATE" not in base64.b64decode(one.public_key).decode("latin-1")

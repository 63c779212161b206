"""Figures of a node's pods are for the operator. Peers with certificates cannot read them."""

import asyncio
import ssl
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web

from stoker_api.node_caches.node_answer import FIGURES_PATH, NodeAnswer
from stoker_api.node_caches.peers import peer_host
from stoker_operator.figures.node_client import _context
from stoker_operator.webhook.peer_authority import PeerAuthority
from stoker_sidecar.agent.http.server import FiguresPage
from tests.support.peers import new_authority, peer_tls
from tests.support.ports import free_ports
from tests.support.waiting import all_sockets_closed


def of_the_operator(authority: PeerAuthority) -> ssl.SSLContext:
    return _context(authority, datetime.now(UTC))


def of_another_node(authority: PeerAuthority) -> ssl.SSLContext:
    return peer_tls("another", authority).client_context()


@pytest.mark.parametrize(("asking", "status"), [(of_the_operator, 200), (of_another_node, 403)])
async def test_the_operator_alone_reads_figures(asking: object, status: int) -> None:
    authority = new_authority()
    application = web.Application()
    FiguresPage(lambda: NodeAnswer(node="n")).add_to(application)
    runner = web.AppRunner(application)
    await runner.setup()
    (port,) = free_ports(1)
    tls = peer_tls("n", authority).server_context()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
    assert callable(asking)
    url = f"https://127.0.0.1:{port}{FIGURES_PATH}"
    asked = {"ssl": asking(authority), "server_hostname": peer_host("n")}
    async with aiohttp.ClientSession() as session, session.get(url, **asked) as response:
        assert response.status == status
    await runner.cleanup()
    await asyncio.sleep(0)
    await all_sockets_closed()

"""Requests to a pod's loopback port through an API server with the kubelet's WebSocket form of port-forward."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import WSMsgType, web

from stoker_kube.access.port_forward import PROTOCOL
from stoker_kube.access.transport import Transport
from stoker_kube.client import KubeClient
from stoker_kube.errors import Forbidden, KubeError, NotFound
from tests.support.plain_access import PlainAccess
from tests.support.ports import free_ports

_DATA, _ERROR = b"\0", b"\1"


async def forward(request: web.Request) -> web.StreamResponse:
    """Connect the caller to a port of this machine, as a kubelet does for a port of a pod."""
    if request.match_info["pod"] == "forbidden" or request.headers["Authorization"] != "Bearer of-the-tests":
        return web.Response(status=403)
    if request.match_info["pod"] != "sidecar":
        return web.Response(status=404)
    if request.headers["Accept"] != "*/*":
        return web.Response(status=406)  # as containerd does
    port = int(request.query["ports"])
    socket = web.WebSocketResponse(protocols=[PROTOCOL])
    await socket.prepare(request)
    for channel in (_DATA, _ERROR):
        await socket.send_bytes(channel + port.to_bytes(2, "little"))
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        await socket.send_bytes(_ERROR + f"port {port}: {error.strerror}".encode())
        return socket
    message = await socket.receive()
    assert message.type is WSMsgType.BINARY
    assert message.data[:1] == _DATA
    writer.write(message.data[1:])
    while content := await reader.read(7):
        await socket.send_bytes(_DATA + content)
    writer.close()
    return socket


async def page(request: web.Request) -> web.StreamResponse:
    return web.json_response({"asked": request.query.get("dataset", "")})


@asynccontextmanager
async def serving(application: web.Application, port: int) -> AsyncIterator[None]:
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield
    finally:
        await runner.cleanup()


@pytest.fixture
async def ports() -> AsyncIterator[tuple[KubeClient, int, int]]:
    """Serve both. Yield the client, the page's port, and a port without a listener."""
    api, pod, nobody = free_ports(3)
    server, sidecar = web.Application(), web.Application()
    server.router.add_get("/api/v1/namespaces/stoker/pods/{pod}/portforward", forward)
    sidecar.router.add_get("/node/status", page)
    access = PlainAccess(f"http://127.0.0.1:{api}", "of-the-tests")
    async with serving(server, api), serving(sidecar, pod), KubeClient(Transport(access)) as client:
        yield client, pod, nobody


async def test_the_pods_answer_comes_through(ports: tuple[KubeClient, int, int]) -> None:
    client, pod, _ = ports
    body = await client.ask_pod("sidecar", "stoker", pod, "/node/status?dataset=a%2Fb", 1000)
    assert body == b'{"asked": "a/b"}'


async def test_a_path_that_is_not_there_is_not_found(ports: tuple[KubeClient, int, int]) -> None:
    client, pod, _ = ports
    with pytest.raises(NotFound):
        await client.ask_pod("sidecar", "stoker", pod, "/other", 1000)


async def test_a_port_where_nobody_listens_is_a_sentence(ports: tuple[KubeClient, int, int]) -> None:
    client, _, nobody = ports
    with pytest.raises(KubeError, match=f"port {nobody}"):
        await client.ask_pod("sidecar", "stoker", nobody, "/node/status", 1000)


async def test_an_answer_that_is_too_large_is_refused(ports: tuple[KubeClient, int, int]) -> None:
    client, pod, _ = ports
    with pytest.raises(KubeError, match="more than 10 bytes"):
        await client.ask_pod("sidecar", "stoker", pod, "/node/status", 10)


@pytest.mark.parametrize(("name", "kind"), [("gone", NotFound), ("forbidden", Forbidden)])
async def test_a_pod_that_cannot_be_asked_is_told_apart(
    ports: tuple[KubeClient, int, int], name: str, kind: type[KubeError]
) -> None:
    client, pod, _ = ports
    with pytest.raises(kind):
        await client.ask_pod(name, "stoker", pod, "/node/status", 1000)

"""Request headers of the transport."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stoker_kube.access.transport import Request, Transport
from tests.support.plain_access import PlainAccess


@pytest.mark.parametrize("compressed", [True, False])
async def test_compression_is_optional(compressed: bool) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"gzip": "gzip" in request.headers["Accept-Encoding"]})

    app = web.Application()
    app.router.add_get("/", answer)
    async with TestServer(app) as server:
        transport = Transport(PlainAccess(str(server.make_url("")).rstrip("/")), compressed=compressed)
        try:
            assert await transport.call(Request("GET", "/")) == {"gzip": compressed}
        finally:
            await transport.close()

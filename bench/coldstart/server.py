"""An API server that is played: it gives what is in a file, lists by pages, over TLS, and tells of no change."""

import asyncio
import gzip
import json
import re
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from aiohttp import web

from stoker_api import names
from stoker_kube.resources import DATASETS, TRAINING_JOBS
from stoker_operator.webhook.certs import make

HOST = "localhost"
_VERSION = "1000000"
_LEAST_COMPRESSED = 128 * 1024  # bytes, as the real one has it
_MOST_SHOWN = 2000  # characters of what was written
_OF_ONE = re.compile(r"/(api|apis/[^/]+)/[^/]+/(namespaces/[^/]+/)?[^/]+/[^/]+")  # the path of one object


@dataclass(frozen=True)
class _Objects:
    """What is served, as JSON: by the path of its list, and by its own."""

    lists: dict[str, list[bytes]] = field(default_factory=dict)
    single: dict[str, bytes] = field(default_factory=dict)


def serve(pipe: Connection, objects: Path, kubeconfig: Path) -> None:
    """Serve until the process is ended; writes the kubeconfig and says so once it does."""
    authority = kubeconfig.with_suffix(".pem")

    def tell(port: int, certificate: bytes) -> None:
        authority.write_bytes(certificate)
        kubeconfig.write_text(_kubeconfig(port, authority))
        pipe.send("serving")

    asyncio.run(_serve(pipe, _read(objects), tell))


def _read(objects: Path) -> _Objects:
    found = _Objects()
    with objects.open("rb") as file:
        for line in file:
            of_list, own, body = line.rstrip().split(b" ", 2)
            found.lists.setdefault(of_list.decode(), []).append(body)
            found.single[own.decode()] = body
    return found


async def _serve(pipe: Connection, objects: _Objects, tell: Callable[[int, bytes], None]) -> None:
    server = _Server(objects)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    material = make([HOST], datetime.now(UTC))
    with TemporaryDirectory() as folder:
        pair = Path(folder) / "server.pem"
        pair.write_bytes(material.key + material.certificate)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair)
    site = web.TCPSite(runner, HOST, 0, ssl_context=context)
    await site.start()
    tell(runner.addresses[0][1], material.authorities)
    await asyncio.to_thread(pipe.recv)
    pipe.send(server.written)


def _kubeconfig(port: int, authority: Path) -> str:
    cluster = {"server": f"https://{HOST}:{port}", "certificate-authority": str(authority)}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "bench",
            "clusters": [{"name": "bench", "cluster": cluster}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
            "users": [{"name": "bench", "user": {"token": "bench"}}],
        }
    )


class _Server:
    """Answers for what is served: lists, watches, one object, kopf's questions; takes nothing that is written."""

    def __init__(self, objects: _Objects) -> None:
        self._objects = objects
        self.written: list[str] = []  # what somebody wanted to write: at rest there is nothing

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        if request.method != "GET":
            self.written.append(f"{request.method} {request.path} {await request.text():.{_MOST_SHOWN}}")
            return _refusal(403, "Forbidden")
        if request.query.get("watch"):
            return await self._watch(request)
        if (found := _discovered(request.path)) is not None:
            return web.json_response(found)
        if _OF_ONE.fullmatch(request.path):
            return self._one(request.path)
        return self._list(request)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": _VERSION}}}
        await response.write(json.dumps(bookmark).encode() + b"\n")
        await asyncio.sleep(3600)
        return response

    def _one(self, path: str) -> web.Response:
        body = self._objects.single.get(path)
        return _refusal(404, "NotFound") if body is None else web.Response(body=body, content_type="application/json")

    def _list(self, request: web.Request) -> web.Response:
        rows = self._objects.lists.get(request.path, [])
        begin, size = int(request.query.get("continue", 0)), int(request.query.get("limit", 0)) or len(rows)
        more = {"continue": str(begin + size)} if begin + size < len(rows) else {}
        metadata = json.dumps({"resourceVersion": _VERSION} | more).encode()
        body = _page(metadata, rows[begin : begin + size])
        headers = {"Content-Type": "application/json"}
        if "gzip" in request.headers.get("Accept-Encoding", "") and len(body) > _LEAST_COMPRESSED:
            body, headers = gzip.compress(body, 1), headers | {"Content-Encoding": "gzip"}
        return web.Response(body=body, headers=headers)


def _refusal(code: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": reason}, status=code)


def _page(metadata: bytes, rows: Iterable[bytes]) -> bytes:
    return b'{"kind":"List","apiVersion":"v1","metadata":' + metadata + b',"items":[' + b",".join(rows) + b"]}"


def _discovered(path: str) -> dict[str, object] | None:
    """Return what the server says of itself, which kopf asks first."""
    version = {"groupVersion": f"{names.GROUP}/{names.VERSION}", "version": names.VERSION}
    if path == "/apis":
        group = {"name": names.GROUP, "versions": [version], "preferredVersion": version}
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/api/v1":
        row = {"name": "namespaces", "kind": "Namespace", "namespaced": False, "singularName": "namespace"}
        return {"kind": "APIResourceList", "groupVersion": "v1", "resources": [row | {"verbs": ["list", "watch"]}]}
    if path == f"/apis/{names.GROUP}/{names.VERSION}":
        kinds = [
            {"name": one.plural, "kind": one.kind, "namespaced": True, "singularName": one.kind.lower()}
            | {"verbs": ["get", "list", "watch", "patch"]}
            for one in (DATASETS, TRAINING_JOBS)
        ]
        return {"kind": "APIResourceList", "groupVersion": version["groupVersion"], "resources": kinds}
    return {"major": "1", "minor": "36"} if path == "/version" else None

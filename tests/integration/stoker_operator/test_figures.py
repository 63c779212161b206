"""Figures of pods behind a real API server: tenants see their own pods, and a malicious node has no influence."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
import yaml
from aiohttp import web

from stoker_api import names
from stoker_api.node_caches.node_answer import FIGURES_PATH, NodeAnswer
from stoker_kube.api import Kube
from stoker_kube.errors import NotFound
from stoker_kube.resources import API_SERVICES, CLUSTER_ROLES, NODE_CACHES, PODS, SECRETS, SERVICES
from stoker_operator.core.views import installed_names
from stoker_operator.figures.registration import NAME
from stoker_operator.figures.service import FiguresService
from stoker_operator.reconcilers.peer_certificates import _data
from stoker_operator.webhook.certs import KeyMaterial, make
from stoker_operator.webhook.peer_authority import PeerAuthority
from stoker_sidecar.agent.http.server import FiguresPage
from tests.support.apiserver import ApiServer
from tests.support.chart import of_kind, render
from tests.support.kinds import NAMESPACES
from tests.support.peers import new_authority, peer_tls
from tests.support.ports import free_ports
from tests.support.waiting import all_sockets_closed, eventually, eventually_async

SECONDS = 60.0
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class FiguresWorld:
    """An operator's figures behind the API server. ``tenants`` are namespaces, each with the user dev."""

    server: ApiServer
    kube: Kube
    namespace: str
    service: FiguresService
    material: KeyMaterial
    authority: PeerAuthority
    stack: AsyncExitStack
    tenants: list[str] = field(default_factory=list)

    async def sidecar(self, node: str, answer: Answer, certified: str = "") -> None:
        """Serve a node's figures. ``certified`` is the node in its certificate, if it differs."""
        port = free_ports(1)[0]
        application = web.Application()
        application.router.add_get(FIGURES_PATH, answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        self.stack.push_async_callback(runner.cleanup)
        tls = peer_tls(certified or node, self.authority).server_context()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        labels = {"app.kubernetes.io/name": "stoker", "app.kubernetes.io/component": "sidecar"}
        container = {"name": "sidecar", "image": "none", "ports": [{"name": "peers", "containerPort": port}]}
        pod = f"sidecar-{uuid4().hex[:8]}"
        body = {"metadata": {"name": pod, "labels": labels}, "spec": {"nodeName": node, "containers": [container]}}
        await self.kube.create(PODS, body, self.namespace)
        await self.kube.patch(PODS, pod, {"status": {"podIP": "127.0.0.1"}}, self.namespace, subresource="status")

    async def tenant(self) -> str:
        """Make a namespace. Its user dev has the chart's role for figures, which view and edit include."""
        namespace = f"tenant-{uuid4().hex[:8]}"
        self.server.create(NAMESPACES, namespace)
        binding = ("rolebinding", "dev", "--clusterrole=stoker-figures", f"--user=dev-of-{namespace}")
        self.server.kubectl("create", *binding, "-n", namespace)
        return namespace

    async def pod(self, namespace: str, name: str, node: str) -> dict[str, Any]:
        """Make a pod that runs on a node. Return the node's row for it."""
        body = {
            "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
        }
        made = await self.kube.create(PODS, body, namespace)
        await self.kube.patch(PODS, name, {"status": {"phase": "Running"}}, namespace, subresource="status")
        return {"pod": f"{namespace}/{name}", "uid": made["metadata"]["uid"], "phase": "Training", "epoch": 0}

    async def ask(self, namespace: str, user: str = "") -> tuple[int, Any]:
        """Return status and body of a list, as a user requests it from the API server."""
        path = f"/apis/figures.stoker.dev/v1alpha1/namespaces/{namespace}/podfigures"
        headers = {"Authorization": f"Bearer {self.server.token}"} | ({"Impersonate-User": user} if user else {})
        url = self.server.url + path
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as response:
            body = await response.text()
            try:
                return response.status, json.loads(body)
            except ValueError:
                return response.status, body

    async def shown(self, namespace: str, count: int = 1) -> list[dict[str, Any]]:
        """Return a namespace's items as its user dev sees them, when there are at least ``count``.

        A node on a busy machine may answer too late. The operator asks it again after some seconds.
        """

        async def look() -> list[dict[str, Any]] | None:
            status, body = await self.ask(namespace, f"dev-of-{namespace}")
            return body["items"] if status == 200 and len(body["items"]) >= count else None

        return await eventually_async(look, SECONDS)


def answering(node: str, *rows: dict[str, Any]) -> Answer:
    """Answer as a sidecar does."""
    page = FiguresPage(lambda: NodeAnswer.model_validate({"node": node, "workloads": rows}))
    return page._show


@pytest.fixture
async def figures(
    apiserver: ApiServer, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FiguresWorld]:
    # On a busy machine, the operator's limit would leave the APIService to the next test.
    monkeypatch.setattr("stoker_operator.figures.service._WITHDRAW_SECONDS", SECONDS)
    async with AsyncExitStack() as stack:
        kube = await stack.enter_async_context(await apiserver.client())
        authority = new_authority()
        await kube.create(SECRETS, {"metadata": {"name": "stoker-peer-ca"}, "data": _data(authority)}, namespace)
        spec = {"type": "ExternalName", "externalName": "localhost"}
        await kube.create(SERVICES, {"metadata": {"name": "stoker-webhook"}, "spec": spec}, namespace)
        role = next(
            one for one in of_kind(render({}), "ClusterRole") if one["metadata"]["name"] == installed_names.FIGURES_ROLE
        )
        file = tmp_path / "role.yaml"
        file.write_text(yaml.safe_dump(role))
        apiserver.kubectl("apply", f"--filename={file}")
        port = free_ports(1)[0]
        service = FiguresService(kube, namespace, "operator-0", "127.0.0.1", port, service_port=port)
        material = make([f"stoker-webhook.{namespace}.svc"], datetime.now(UTC))
        service.certified.take(material.certificate, material.key)
        await service.certified.publish(material.authorities)
        running = asyncio.create_task(service.run())
        try:
            await eventually(lambda: service.server.serves, SECONDS)
            yield FiguresWorld(apiserver, kube, namespace, service, material, authority, stack)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await kube.delete(CLUSTER_ROLES, installed_names.FIGURES_ROLE)
        listing = await kube.list(API_SERVICES, field_selector=f"metadata.name={NAME}")
        assert listing.items == [], "the last replica takes its APIService away"
    await all_sockets_closed()


async def test_a_tenant_sees_the_figures_of_its_own_pods_and_of_no_others(figures: FiguresWorld) -> None:
    own, other = await figures.tenant(), await figures.tenant()
    node = f"node-{own}"
    rows = [await figures.pod(own, "resnet", node), await figures.pod(other, "bert", node)]
    await figures.sidecar(node, answering(node, *rows))

    (row,) = await figures.shown(own)
    assert (row["metadata"]["name"], row["workload"]["phase"], row["ageSeconds"] <= 2.0) == ("resnet", "Training", True)
    status, refused = await figures.ask(other, f"dev-of-{own}")
    assert (status, "cannot list resource" in refused["message"]) == (403, True)


async def test_kubectl_prints_a_table(figures: FiguresWorld) -> None:
    own = await figures.tenant()
    node = f"node-{own}"
    await figures.sidecar(node, answering(node, await figures.pod(own, "resnet", node)))
    await figures.shown(own)

    async def table() -> list[str] | None:
        words = ("get", "podfigures", "-n", own, f"--as=dev-of-{own}")
        lines = (await asyncio.to_thread(figures.server.kubectl, *words)).splitlines()
        return lines if len(lines) > 1 else None  # the node may answer too late

    head, line = await eventually_async(table, SECONDS)
    assert head.split() == ["NAME", "NODE", "PHASE", "EPOCH", "ITEMS/S", "STALL", "AGE"]
    assert line.split()[:4] == ["resnet", node, "Training", "1"]


async def test_a_node_cannot_speak_of_pods_of_other_nodes(figures: FiguresWorld) -> None:
    own = await figures.tenant()
    good, bad = f"good-{own}", f"bad-{own}"
    row = await figures.pod(own, "resnet", good)
    mine = await figures.pod(own, "bert", bad)
    await figures.sidecar(good, answering(good, row))
    await figures.sidecar(bad, answering(bad, mine, row | {"phase": "Lies"}))

    found = {one["metadata"]["name"]: one["workload"]["phase"] for one in await figures.shown(own, 2)}
    assert found == {"resnet": "Training", "bert": "Training"}


async def much(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(100):
        await response.write(bytes(2**20))
    return response


async def never(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def no_json(_: web.Request) -> web.StreamResponse:
    return web.Response(body=b"[" * 1_000_000)


@pytest.mark.parametrize(
    ("answer", "certified", "why"),
    [
        (much, "", "more than|within 1 s"),  # by the bytes that the machine transfers in a second
        (never, "", "within 1 s"),
        (no_json, "", "cannot be read"),
        (None, "another-node", "cannot be reached"),
    ],
)
async def test_of_a_node_that_does_not_answer_in_bounds_the_last_nodecache_is_shown(
    figures: FiguresWorld, answer: Answer | None, certified: str, why: str
) -> None:
    own = await figures.tenant()
    node = f"node-{own}"
    row = await figures.pod(own, "resnet", node)
    taken = row | {"figuresAt": "2026-01-01T00:00:00Z", "phase": "Validation"}
    await figures.kube.create(NODE_CACHES, {"metadata": {"name": node}, "spec": {}})
    await figures.kube.patch(NODE_CACHES, node, {"status": {"workloads": [taken]}}, subresource="status")
    await figures.sidecar(node, answer or answering(node, row), certified)

    (shown,) = await figures.shown(own)
    assert (shown["workload"]["phase"], shown["ageSeconds"] > 1000) == ("Validation", True)
    assert re.search(why, shown["message"]), shown["message"]
    await figures.kube.delete(NODE_CACHES, node)


@asynccontextmanager
async def asked_directly(figures: FiguresWorld, tls: ssl.SSLContext) -> AsyncIterator[int]:
    """Send a request to the operator's port without the API server, as the administrator."""
    url = f"https://127.0.0.1:{figures.service.server.port}/apis/figures.stoker.dev/v1alpha1/podfigures"
    headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=tls) as response:
        yield response.status


@pytest.mark.parametrize("forged", [False, True])
async def test_who_forges_the_proxys_headers_without_its_certificate_is_refused(
    figures: FiguresWorld, tmp_path: Path, forged: bool
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if forged:
        other = peer_tls("attacker")  # of a CA that differs from that of the API server's proxy
        file = tmp_path / "attacker.pem"
        file.write_text(f"{other.certificate}\n{other.key}")
        tls.load_cert_chain(file)
    with pytest.raises((aiohttp.ClientError, OSError)):
        async with asked_directly(figures, tls):
            pass


async def test_the_apiservice_belongs_to_the_charts_role(figures: FiguresWorld) -> None:
    async def registered() -> dict[str, Any] | None:
        try:
            return await figures.kube.get(API_SERVICES, NAME)
        except NotFound:
            return None

    owner = (await eventually_async(registered, SECONDS))["metadata"]["ownerReferences"]
    role = await figures.kube.get(CLUSTER_ROLES, installed_names.FIGURES_ROLE)
    assert [(one["kind"], one["uid"]) for one in owner] == [("ClusterRole", role["metadata"]["uid"])]
    assert names.MANAGED_BY in (await figures.kube.get(API_SERVICES, NAME))["metadata"]["labels"].values()

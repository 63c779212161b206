"""The webhook process follows the Datasets. Its configurations have its path and its CA."""

import asyncio
import base64
import re
import ssl
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from stoker_api import names
from stoker_kube.resources import DATASETS, LEASES, MUTATING_WEBHOOKS
from stoker_operator.processes.webhook_process import WebhookOptions, WebhookProcess
from stoker_operator.webhook.calling_path import WEBHOOK_KINDS
from stoker_operator.webhook.certs import CERTIFICATE_LIFE
from tests.fakes.kube import FakeKube
from tests.support.waiting import eventually_async

SERVICE = "stoker-webhook.stoker.svc"


class Running:
    """The webhook of a process, and the API server's view of it."""

    def __init__(self, kube: FakeKube, http_port: int, webhook_port: int) -> None:
        self.kube = kube
        self.http_port = http_port
        self.webhook_port = webhook_port

    async def ready(self) -> str:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.http_port}/readyz") as answer,
        ):
            return await answer.text()

    async def metrics(self) -> str:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.http_port}/metrics") as answer,
        ):
            return await answer.text()

    async def client_config(self) -> dict[str, Any]:
        """Return the client configuration for the API server."""
        configuration = await self.kube.get(MUTATING_WEBHOOKS, "stoker")
        return dict(configuration["webhooks"][0]["clientConfig"])

    async def admit(self, datasets: str) -> dict[str, Any]:
        """Review a pod as the API server would, and return the response."""
        config = await self.client_config()
        trust = ssl.create_default_context(cadata=base64.b64decode(config["caBundle"]).decode())
        url = f"https://127.0.0.1:{self.webhook_port}{config['service']['path']}"
        pod = {
            "metadata": {"annotations": {names.ANNOTATION_DATASETS: datasets}},
            "spec": {"containers": [{"name": "main"}]},
        }
        review = {"request": {"uid": "u", "namespace": "vision", "object": {"kind": "Pod"} | pod}}
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json=review, ssl=trust, server_hostname=SERVICE) as answer,
        ):
            return dict((await answer.json())["response"])


@pytest.fixture
async def running(unused_tcp_port_factory: Any) -> AsyncIterator[Running]:
    kube, ports = FakeKube(), (unused_tcp_port_factory(), unused_tcp_port_factory())
    service = {"name": "stoker-webhook", "namespace": "stoker"}
    for kind in WEBHOOK_KINDS:
        webhooks = [{"name": "pods.stoker.dev", "clientConfig": {"service": service}}]
        await kube.create(kind, {"metadata": {"name": "stoker"}, "webhooks": webhooks})
    body = {"metadata": {"name": "imagenet", "namespace": "vision"}, "spec": {"source": {"uri": "s3://bucket/"}}}
    await kube.create(DATASETS, body, "vision")
    stop = asyncio.Event()
    process = WebhookProcess(kube, WebhookOptions("stoker", "127.0.0.1", *ports))
    task = asyncio.create_task(process.run(stop))
    made = Running(kube, *ports)

    async def called() -> bool | None:
        return ("path" in (await made.client_config())["service"] and await made.ready() == "ok") or None

    await eventually_async(called)
    yield made
    stop.set()
    await task


async def test_a_pod_of_a_watched_dataset_is_admitted(running: Running) -> None:
    response = await running.admit("imagenet:/data")
    assert (response["allowed"], "patch" in response) == (True, True)


async def test_a_deleted_dataset_leaves_the_catalog(running: Running) -> None:
    await running.kube.delete(DATASETS, "imagenet", "vision")

    async def refused() -> bool | None:
        return not (await running.admit("imagenet:/data"))["allowed"] or None

    await eventually_async(refused)


async def test_it_is_ready_without_a_lease(running: Running) -> None:
    assert await running.ready() == "ok"
    assert not (await running.kube.list(LEASES, "stoker")).items


async def test_the_expiry_of_its_certificate_is_a_metric(running: Running) -> None:
    shown = re.search(r"^stoker_webhook_certificate_expiry_timestamp_seconds (\S+)$", await running.metrics(), re.M)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(time.time() + CERTIFICATE_LIFE.total_seconds(), abs=600)

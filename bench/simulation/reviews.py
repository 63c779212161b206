"""Asks the webhook as the API server does, at a given rate, and measures how long it takes to answer."""

import asyncio
import base64
import ssl
import time
import uuid
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Self

import aiohttp

from bench.errors import BenchError
from bench.simulation import shape
from bench.simulation.cluster import WEBHOOK_PORT
from stoker_kube.api import Kube, Object
from stoker_kube.resources import MUTATING_WEBHOOKS

_CONFIGURATION = "stoker"
_CONNECTIONS = 20
_KEEP_ALIVE = 90.0  # seconds for which an idle connection is kept, as Go does
_OK = 200


@dataclass(frozen=True)
class Asking:
    """Reviews of pods that read a Dataset, sent by the clock, whether those before were answered or not.

    ``warm_up``: seconds before those that count, in which connections are made.
    """

    dataset: str
    a_second: float
    seconds: float
    warm_up: float = 1.0
    namespace: str = shape.WORK


@dataclass(frozen=True)
class WebhookCall:
    """How the API server calls the webhook: where, as which host, and by which authorities it knows it (PEM)."""

    url: str
    host: str
    authorities: str

    @classmethod
    def of(cls, configuration: Object, address: str) -> Self:
        """Read it from the webhook's configuration, for an operator at this address. Pure."""
        client = configuration["webhooks"][0]["clientConfig"]
        service = client["service"]
        url = f"https://{address}:{WEBHOOK_PORT}{service['path']}"
        authorities = base64.b64decode(client["caBundle"]).decode()
        return cls(url, f"{service['name']}.{service['namespace']}.svc", authorities)


async def webhook_call(kube: Kube, address: str) -> WebhookCall:
    """Return how the webhook of an operator at this address is called."""
    return WebhookCall.of(await kube.get(MUTATING_WEBHOOKS, _CONFIGURATION), address)


async def ask_apart(call: WebhookCall, asking: Asking) -> list[float]:
    """Ask from a process of its own, which does nothing else; return the seconds that each answer took.

    Raises BenchError when a review is refused.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        return await asyncio.get_running_loop().run_in_executor(processes, ask_webhook, call, asking)


def ask_webhook(call: WebhookCall, asking: Asking) -> list[float]:
    """Ask over connections that are kept, as the API server keeps its own."""
    return asyncio.run(_ask(call, asking))


async def _ask(call: WebhookCall, asking: Asking) -> list[float]:
    context = ssl.create_default_context(cadata=call.authorities)
    connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=context, keepalive_timeout=_KEEP_ALIVE)
    async with aiohttp.ClientSession(connector=connector) as session:
        tasks = list[asyncio.Task[float]]()
        first = round(asking.a_second * asking.warm_up)
        began = time.monotonic()
        for number in range(first + round(asking.a_second * asking.seconds)):
            due = began + number / asking.a_second
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            tasks.append(asyncio.create_task(_ask_once(session, call, asking, due)))
        return list(await asyncio.gather(*tasks))[first:]


async def _ask_once(session: aiohttp.ClientSession, call: WebhookCall, asking: Asking, due: float) -> float:
    """Return the seconds from when it was due: so what the sender is late counts too, and none is left out."""
    body = review_of(asking.dataset, asking.namespace)
    async with session.post(call.url, json=body, server_hostname=call.host) as answer:
        said = await answer.json()
    response = said.get("response", {})
    if answer.status != _OK or not response.get("allowed") or "patch" not in response:
        raise BenchError(f"the webhook did not inject a pod ({answer.status}): {said}")
    return time.monotonic() - due


def review_of(dataset: str, namespace: str = shape.WORK) -> Object:
    """Return an AdmissionReview of a pod that reads a Dataset. Pure but for its uid."""
    pod: Object = {"apiVersion": "v1", "kind": "Pod"} | shape.pod("review", dataset)
    pod["metadata"] |= {"namespace": namespace}
    request = {"uid": str(uuid.uuid4()), "namespace": namespace, "operation": "CREATE", "object": pod}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}

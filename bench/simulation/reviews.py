"""Sends reviews to the webhook as the API server does, at a given rate, and measures the latency.

``lone_webhook`` is the same webhook in a process without other work. It shows the limit of the machine.
"""

import asyncio
import base64
import ssl
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Self

import aiohttp

from bench.errors import BenchError
from bench.simulation import shape
from bench.simulation.cluster import WEBHOOK_PORT
from stoker_api.datasets.dataset import Dataset
from stoker_kube.api import Kube, Object
from stoker_kube.resources import MUTATING_WEBHOOKS
from stoker_operator.core.views.catalog import CatalogEntry, catalog_entry
from stoker_operator.webhook.certs import make
from stoker_operator.webhook.rotation import load_certificate, new_tls_context
from stoker_operator.webhook.server import WebhookServer

_CONFIGURATION = "stoker"
_CONNECTIONS = 20
_KEEP_ALIVE = 90.0  # seconds before an idle connection is closed, as in Go
_OK = 200
_WARM_UP = 1.0  # seconds of warm-up, in which connections are made
_HOST = "localhost"


@dataclass(frozen=True)
class Asking:
    """Reviews of pods that read a Dataset, sent at a fixed rate, independent of earlier answers."""

    dataset: str
    a_second: float
    seconds: float


@dataclass(frozen=True)
class WebhookCall:
    """The API server's settings for the webhook: URL, host name, and CA bundle (PEM)."""

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
    """Return the call settings of the webhook of an operator at this address."""
    return WebhookCall.of(await kube.get(MUTATING_WEBHOOKS, _CONFIGURATION), address)


async def ask_apart(call: WebhookCall, asking: Asking) -> list[float]:
    """Send reviews from a separate process without other work. Return the seconds of each answer.

    Raises BenchError if a review is refused.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        return await asyncio.get_running_loop().run_in_executor(processes, ask_webhook, call, asking)


def ask_webhook(call: WebhookCall, asking: Asking) -> list[float]:
    """Send over kept-alive connections, as the API server does."""
    return asyncio.run(_ask(call, asking))


async def _ask(call: WebhookCall, asking: Asking) -> list[float]:
    context = ssl.create_default_context(cadata=call.authorities)
    connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=context, keepalive_timeout=_KEEP_ALIVE)
    async with aiohttp.ClientSession(connector=connector) as session:
        tasks = list[asyncio.Task[float]]()
        first = round(asking.a_second * _WARM_UP)
        began = time.monotonic()
        for number in range(first + round(asking.a_second * asking.seconds)):
            due = began + number / asking.a_second
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            tasks.append(asyncio.create_task(_ask_once(session, call, asking, due)))
        return list(await asyncio.gather(*tasks))[first:]


async def _ask_once(session: aiohttp.ClientSession, call: WebhookCall, asking: Asking, due: float) -> float:
    """Return the seconds since the scheduled time. A late sender counts too, and no review is left out."""
    body = review_of(asking.dataset)
    async with session.post(call.url, json=body, server_hostname=call.host) as answer:
        said = await answer.json()
    response = said.get("response", {})
    if answer.status != _OK or not response.get("allowed") or "patch" not in response:
        raise BenchError(f"the webhook did not inject a pod ({answer.status}): {said}")
    return time.monotonic() - due


def review_of(dataset: str) -> Object:
    """Return an AdmissionReview of a pod that reads a Dataset. Pure but for its uid."""
    pod: Object = {"apiVersion": "v1", "kind": "Pod"} | shape.pod("review", dataset)
    pod["metadata"] |= {"namespace": shape.WORK}
    request = {"uid": str(uuid.uuid4()), "namespace": shape.WORK, "operation": "CREATE", "object": pod}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


@contextmanager
def lone_webhook(dataset: str) -> Iterator[WebhookCall]:
    """Serve reviews of pods that read this Dataset, the only one. Raises BenchError if the webhook does not start."""
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, dataset))
    process.start()
    there.close()  # so that its end is detected here
    try:
        port, authorities = here.recv()
        yield WebhookCall(f"https://{_HOST}:{port}/mutate", _HOST, authorities.decode())
    except EOFError as error:
        raise BenchError("the process that was to answer reviews alone has ended") from error
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection, dataset: str) -> None:
    asyncio.run(_served(pipe, dataset))


async def _served(pipe: Connection, dataset: str) -> None:
    material = make([_HOST], datetime.now(UTC))
    tls = new_tls_context()
    load_certificate(tls, material.certificate, material.key)
    one = Dataset.model_validate(shape.dataset(dataset, "all"))
    entries = {one.key: catalog_entry(one)}
    server = WebhookServer(lambda: entries, _nobody, tls, _HOST, 0, is_called_by=_anybody)
    await server.start()
    pipe.send((server.port, material.authorities))
    await asyncio.Event().wait()


async def _anybody(path: str) -> bool:
    return True


async def _nobody(key: str) -> CatalogEntry | None:
    return None

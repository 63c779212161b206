"""Asks the webhook as the API server does, at a given rate, and measures how long it takes to answer."""

import asyncio
import base64
import ssl
import time
import uuid
from types import TracebackType
from typing import Self

import aiohttp

from bench.errors import BenchError
from bench.simulation import shape
from bench.simulation.cluster import WEBHOOK_PORT
from stoker_kube.api import Kube, Object
from stoker_kube.resources import MUTATING_WEBHOOKS

_CONFIGURATION = "stoker"
_CONNECTIONS = 20
_OK = 200


class Reviewer:
    """Calls the webhook at the operator's address, by the path and the authority in its configuration.

    An asynchronous context manager: connections are kept, as the API server keeps its own.
    """

    def __init__(self, configuration: Object, address: str) -> None:
        client = configuration["webhooks"][0]["clientConfig"]
        service = client["service"]
        self._url = f"https://{address}:{WEBHOOK_PORT}{service['path']}"
        self._host = f"{service['name']}.{service['namespace']}.svc"
        authorities = base64.b64decode(client["caBundle"]).decode()
        context = ssl.create_default_context(cadata=authorities)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=context))

    @classmethod
    async def connect(cls, kube: Kube, address: str) -> Self:
        """Read how the webhook is called."""
        return cls(await kube.get(MUTATING_WEBHOOKS, _CONFIGURATION), address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def ask(self, dataset: str, a_second: float, seconds: float) -> list[float]:
        """Send reviews of pods that read the Dataset for so long; return the seconds that each took.

        They are sent by the clock, whether those before were answered or not. Raises BenchError when one is refused.
        """
        began, asked = time.monotonic(), []
        for number in range(round(a_second * seconds)):
            await asyncio.sleep(max(0.0, began + number / a_second - time.monotonic()))
            asked.append(asyncio.create_task(self._ask_once(dataset, began + number / a_second)))
        return list(await asyncio.gather(*asked))

    async def _ask_once(self, dataset: str, due: float) -> float:
        """Return the seconds from when it was due: so what the sender is late counts too, and none is left out."""
        async with self._session.post(self._url, json=review_of(dataset), server_hostname=self._host) as answer:
            said = await answer.json()
        response = said.get("response", {})
        if answer.status != _OK or not response.get("allowed") or "patch" not in response:
            raise BenchError(f"the webhook did not inject a pod ({answer.status}): {said}")
        return time.monotonic() - due


def review_of(dataset: str) -> Object:
    """Return an AdmissionReview of a pod that reads a Dataset. Pure but for its uid."""
    pod: Object = {"apiVersion": "v1", "kind": "Pod"} | shape.pod("review", dataset)
    request = {"uid": str(uuid.uuid4()), "namespace": shape.WORK, "operation": "CREATE", "object": pod}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}

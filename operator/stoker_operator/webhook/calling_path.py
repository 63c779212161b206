"""Identifies the API server by a secret path in the webhook's configuration.

The API server shows webhooks no client certificate unless its administrators configure one per webhook. Only
administrators and the API server read webhook configurations, so the secret is there, and all replicas share it.
"""

import asyncio
import hmac
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from stoker_kube.api import JSON, Kube, Object
from stoker_kube.errors import Conflict, Invalid, KubeError, NotFound
from stoker_kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Kind

log = logging.getLogger(__name__)

WEBHOOK_KINDS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)  # of pods, and of TuningProfiles
_SECRET = re.compile(r"/mutate/[0-9a-f]{64}")
KEPT_SECONDS = 60.0  # for which a replaced path stays valid: API servers adopt a new one within about a second
LOOK_SECONDS = 1.0  # between two reads of the configuration because of unknown paths
PATIENCE = 2.0  # seconds for one read
MOST_WAITING = 100  # callers with unknown paths that wait for a read; more are refused at once


def new_path() -> str:
    """Make a path with 256 random bits."""
    return f"/mutate/{secrets.token_hex(32)}"


class CallingPath:
    """The secret paths in the webhook configurations named ``configuration``; ``clock`` counts seconds."""

    def __init__(
        self,
        kube: Kube,
        configuration: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self._kube: Final = kube
        self._name: Final = configuration
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._believed: Final[
            dict[Kind, dict[str, float]]
        ] = {}  # per configuration: paths and the ends of their validity
        self._looking: Final = asyncio.Lock()
        self._looked = -LOOK_SECONDS
        self._waiting = 0

    async def ensure(self) -> None:
        """Run one pass: read the configurations, and write secret paths where they are missing.

        Raises KubeError.
        """
        for kind in WEBHOOK_KINDS:
            await self._ensure(kind)

    async def _ensure(self, kind: Kind) -> None:
        try:
            configuration = await self._kube.get(kind, self._name)
        except NotFound:
            return  # the API server calls no webhook
        self._note(kind, configuration)
        operations = _operations(configuration, new_path())
        if not operations:
            return
        try:
            written = await self._kube.patch(kind, self._name, operations, content_type=JSON)
        except (Conflict, Invalid):
            return  # another replica was first: the next read shows its path
        self._note(kind, written)
        log.info("wrote a new webhook path to %s %s", kind.kind, self._name)

    async def is_called_by(self, path: str) -> bool:
        """Return True for a valid path. For an unknown one, read the configurations, at most once per second."""
        if self._is_believed(path):
            return True
        if self._waiting >= MOST_WAITING:
            return False
        self._waiting += 1
        try:
            await self._look(self._clock())
        finally:
            self._waiting -= 1
        return self._is_believed(path)

    async def _look(self, asked: float) -> None:
        async with self._looking:
            if self._looked > asked:
                return  # another caller read them in the meantime
            await self._sleep(max(0.0, self._looked + LOOK_SECONDS - self._clock()))
            self._looked = self._clock()
            try:
                async with asyncio.timeout(PATIENCE):
                    await self.ensure()
            except (KubeError, TimeoutError) as error:
                log.warning("the webhook's path could not be read: %s", error or "no answer")

    def _is_believed(self, path: str) -> bool:
        now = self._clock()
        # All are compared, each in constant time.
        given = path.encode("utf-8", "surrogatepass")
        paths = [pair for known in self._believed.values() for pair in known.items()]
        found = [hmac.compare_digest(given, known.encode()) and now < end for known, end in paths]
        return any(found)

    def _note(self, kind: Kind, configuration: Object) -> None:
        now, before = self._clock(), self._believed.get(kind, {})
        replaced = {path: min(end, now + KEPT_SECONDS) for path, end in before.items() if end > now}
        present = {_path(webhook): float("inf") for webhook in configuration.get("webhooks") or ()}
        self._believed[kind] = replaced | present


def _path(webhook: Mapping[str, Any]) -> str:
    client = webhook["clientConfig"]
    if "url" in client:
        return urlsplit(client["url"]).path or "/"
    return str((client.get("service") or {}).get("path") or "/")


def _operations(configuration: Object, path: str) -> list[Object]:
    """Return the JSON patch that sets the path of each webhook without a secret path."""
    operations: list[Object] = []
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        if _SECRET.fullmatch(_path(webhook)):
            continue
        client, at = webhook["clientConfig"], f"/webhooks/{index}/clientConfig"
        operations.append({"op": "test", "path": f"/webhooks/{index}/name", "value": webhook["name"]})
        if "url" in client:
            url = urlunsplit(urlsplit(client["url"])._replace(path=path))
            operations.append({"op": "test", "path": f"{at}/url", "value": client["url"]})
            operations.append({"op": "add", "path": f"{at}/url", "value": url})
        else:
            operations.append({"op": "test", "path": f"{at}/service", "value": client["service"]})
            operations.append({"op": "add", "path": f"{at}/service/path", "value": path})
    return operations

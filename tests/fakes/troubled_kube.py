"""An API server in memory that refuses, truncates, delays or hangs requests about chosen objects."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stoker_kube.api import Object
from stoker_kube.client import namespace_of
from stoker_kube.errors import KubeError
from stoker_kube.resources import Kind
from tests.fakes.kube import FakeKube


@dataclass
class Trouble:
    """The fault of requests about some objects. Without any field, the answers are normal."""

    concerns: Callable[[str, Kind, str, str, Any], bool]  # verb, kind, namespace, name, body
    error: KubeError | None = None
    seconds: float = 0.0  # delay of the answer
    hangs: bool = False
    truncated: bool = False  # the request is executed, and the answer is cut off
    met: int = field(default=0, compare=False)

    async def strike(self) -> None:
        """Apply the part of the fault that precedes execution."""
        self.met += 1
        if self.hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error


class TroubledKube(FakeKube):
    """The server in memory. Lists and watches never fail, because they are not about a single object."""

    def __init__(self, *troubles: Trouble, **options: Any) -> None:
        super().__init__(**options)
        self.troubles = list(troubles)

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        met = await self._meet("get", kind, namespace, name, None)
        return _answer(met, await super().get(kind, name, namespace))

    async def create(self, kind: Kind, body: Object, namespace: str = "") -> Object:
        where = namespace or namespace_of(body)
        met = await self._meet("create", kind, where, body["metadata"].get("name", ""), body)
        return _answer(met, await super().create(kind, body, namespace))

    async def apply(self, kind: Kind, body: Object, **options: Any) -> Object:
        met = await self._meet("apply", kind, namespace_of(body), body["metadata"]["name"], body)
        return _answer(met, await super().apply(kind, body, **options))

    async def patch(self, kind: Kind, name: str, body: Any, namespace: str = "", **options: Any) -> Object:
        met = await self._meet("patch", kind, namespace, name, body)
        return _answer(met, await super().patch(kind, name, body, namespace, **options))

    async def delete(self, kind: Kind, name: str, namespace: str = "", **options: Any) -> None:
        await self._meet("delete", kind, namespace, name, None)
        await super().delete(kind, name, namespace, **options)

    async def _meet(self, verb: str, kind: Kind, namespace: str, name: str, body: Any) -> list[Trouble]:
        met = [one for one in self.troubles if one.concerns(verb, kind, namespace, name, body)]
        for one in met:
            await one.strike()
        return met


def _answer(met: list[Trouble], whole: Object) -> Object:
    return {"metadata": {}} if any(one.truncated for one in met) else whole

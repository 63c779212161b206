"""Applies the CustomResourceDefinitions of this version: Helm installs CRDs but never upgrades them."""

import asyncio
from collections.abc import Callable

from stoker_api.schema import crds
from stoker_kube.api import Kube, Object
from stoker_kube.resources import CRDS
from stoker_operator.errors import NotEstablishedError

FIELD_MANAGER = "stoker-crds"
_POLL = 0.5  # seconds; the API server serves a new CRD within one or two


async def apply_crds(kube: Kube, timeout: float, tell: Callable[[str], None]) -> None:
    """Apply every CRD and wait until it is served. Raises KubeError, NotEstablishedError. ``timeout`` in seconds."""
    for crd in crds().values():
        name = crd["metadata"]["name"]
        await kube.apply(CRDS, crd, field_manager=FIELD_MANAGER)
        try:
            async with asyncio.timeout(timeout):
                await _until_established(kube, name)
        except TimeoutError as error:
            raise NotEstablishedError(
                f"CustomResourceDefinition {name} was applied, but not established within {timeout:.0f} s: "
                f"see `kubectl describe crd {name}`"
            ) from error
        tell(f"{name} is up to date")


async def _until_established(kube: Kube, name: str) -> None:
    while True:
        if is_established(await kube.get(CRDS, name)):
            return
        await asyncio.sleep(_POLL)


def is_established(crd: Object) -> bool:
    """Return True if the API server serves the kind."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)

"""Keeps the Roles by which sidecars read the credentials that Datasets name."""

from collections.abc import Collection
from functools import partial
from typing import Any, Final

from stoker_api.dataset import Dataset
from stoker_operator.core.credentials_rbac import SidecarIdentity, rules_by_namespace
from stoker_operator.reconcilers.retries import Retries
from stoker_operator.writer import Writer

Rules = tuple[dict[str, Any], ...]


class CredentialRoles:
    """The Roles of all namespaces with Datasets, each written when its rules change and once after a start."""

    def __init__(self, writer: Writer, sidecar: SidecarIdentity, retries: Retries) -> None:
        self._writer: Final = writer
        self._retries: Final = retries
        self._sidecar: Final = sidecar
        self._written: Final[dict[str, Rules]] = {}

    async def ensure(self, datasets: Collection[Dataset], now: float) -> None:
        """Write the namespaces whose rules changed; one that cannot be written is tried again later."""
        desired = rules_by_namespace(datasets)
        namespaces = {dataset.metadata.namespace for dataset in datasets} | self._written.keys()
        for namespace in sorted(namespaces):
            rules = desired.get(namespace, ())
            if self._written.get(namespace) != rules:
                write = partial(self._write, namespace, rules)
                await self._retries.attempt(f"Role of namespace {namespace}", now, write)

    async def _write(self, namespace: str, rules: Rules) -> None:
        await self._writer.credentials_role(namespace, rules, self._sidecar)
        self._written[namespace] = rules

"""Keeps the Roles by which sidecars read the credentials that Datasets name."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from stoker_api.dataset import Dataset
from stoker_operator.core.credentials_rbac import SidecarIdentity, rules_by_namespace
from stoker_operator.reconcilers.turns import KeyedAction
from stoker_operator.writer import Writer

Rules = tuple[dict[str, Any], ...]


class CredentialRoles:
    """The Roles of all namespaces with Datasets, each written when its rules change and once after a start."""

    def __init__(self, writer: Writer, sidecar: SidecarIdentity, wake: Callable[[], None]) -> None:
        """Prepare to write; ``wake()`` is called when a Role was, since Datasets may wait for it."""
        self._writer: Final = writer
        self._sidecar: Final = sidecar
        self._wake: Final = wake
        self._written: Final[dict[str, Rules]] = {}
        self._pending: Final[set[str]] = set()

    def actions(self, datasets: Mapping[str, Dataset]) -> Iterator[KeyedAction]:
        """Return what would write the Roles whose rules changed."""
        desired = rules_by_namespace(datasets.values())
        staying = {one.metadata.namespace for one in datasets.values() if not one.metadata.deletion_timestamp}
        known = {one.metadata.namespace for one in datasets.values()}
        self._pending.clear()
        for namespace in sorted(known | self._written.keys()):
            rules = desired.get(namespace, ())
            # Where all Datasets are being deleted the namespace may be, too: nothing can be made there any more, and
            # deleting the Role with the last Dataset is soon enough.
            leaving = namespace in known and namespace not in staying
            if self._written.get(namespace) != rules and not leaving:
                self._pending.add(namespace)
                yield KeyedAction(role_key(namespace), "role", namespace, partial(self._write, namespace, rules))

    def is_written(self, dataset: Dataset) -> bool:
        """Tell whether the sidecars have the right to what this Dataset needs, as far as ``actions`` knew."""
        return dataset.spec.source.credentials is None or dataset.metadata.namespace not in self._pending

    async def _write(self, namespace: str, rules: Rules) -> None:
        await self._writer.credentials_role(namespace, rules, self._sidecar)
        self._written[namespace] = rules
        self._wake()


def role_key(namespace: str) -> str:
    """Name the writing of a namespace's Role."""
    return f"Role of namespace {namespace}"

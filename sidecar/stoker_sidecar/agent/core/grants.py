"""The administrator's grants of a node's credentials and folders to Datasets of a namespace. Pure."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from stoker_sidecar.wire.credentials import AmbientCredentials, AnonymousCredentials, FolderGrant


@dataclass(frozen=True)
class HostFolder:
    """A folder of the nodes, and the patterns of the namespaces whose file:// sources may lie beneath it."""

    path: str
    namespaces: tuple[str, ...]


@dataclass(frozen=True)
class NodeGrants:
    """The grants. ``ambient``: patterns of the namespaces whose Datasets may use the credentials of the node itself."""

    ambient: tuple[str, ...] = ()
    host_folders: tuple[HostFolder, ...] = ()

    def folders(self, namespace: str) -> FolderGrant:
        """Return the folders beneath which file:// sources of the namespace may lie."""
        return FolderGrant(tuple(one.path for one in self.host_folders if _matches(namespace, one.namespaces)))

    def without_credentials(self, namespace: str, forbidden: bool) -> AmbientCredentials | AnonymousCredentials:
        """Return the credentials for a Dataset that names none. ``forbidden``: its class forbids the node's own."""
        if forbidden:
            return AnonymousCredentials(
                "it has no credentials, and its DatasetClass does not allow the credentials of the nodes: name a "
                "Secret or a ServiceAccount in source.credentials"
            )
        if _matches(namespace, self.ambient):
            return AmbientCredentials()
        return AnonymousCredentials(
            "it has no credentials: name a Secret or a ServiceAccount in source.credentials, or ask an administrator "
            f"to add namespace {namespace} to the chart's value sidecar.ambientCredentials"
        )


def parse_host_folders(text: str) -> tuple[HostFolder, ...]:
    """Parse ``[{"path": "/mnt/nfs", "namespaces": ["vision"]}]``. Raises ValueError."""
    try:
        rows: list[dict[str, Any]] = json.loads(text or "[]")
        return tuple(HostFolder(str(row["path"]), tuple(map(str, row["namespaces"]))) for row in rows)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f'{text!r} is no list of folders: write [{{"path": "/mnt/nfs", "namespaces": ["a"]}}]'
        ) from error


def _matches(namespace: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(namespace, pattern) for pattern in patterns)

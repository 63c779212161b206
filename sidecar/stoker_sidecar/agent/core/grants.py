"""What of a node's own the administrator grants to Datasets of a namespace: credentials, folders. Pure."""

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
        """Return what a file:// source of the namespace may be read beneath."""
        return FolderGrant(tuple(one.path for one in self.host_folders if _matches(namespace, one.namespaces)))

    def without_credentials(self, namespace: str, forbidden: bool) -> AmbientCredentials | AnonymousCredentials:
        """Return who asks for a Dataset of the namespace that names no credentials; ``forbidden`` by its class."""
        if forbidden:
            return AnonymousCredentials(
                "it was asked for without credentials, and its DatasetClass does not let it use the nodes' own: name a "
                "Secret or a ServiceAccount in source.credentials"
            )
        if _matches(namespace, self.ambient):
            return AmbientCredentials()
        return AnonymousCredentials(
            "it was asked for without credentials: name a Secret or a ServiceAccount in source.credentials, or have "
            f"the namespace {namespace} granted the nodes' own in the chart's value sidecar.ambientCredentials"
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

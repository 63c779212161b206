"""Clusters and objects for tests of commands."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest

from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli.access.cluster import Target


def connect_to(monkeypatch: pytest.MonkeyPatch, cluster: object, *modules: ModuleType, name: str = "connect") -> None:
    """Make the commands of these modules use ``cluster`` in place of a Kubernetes cluster. ``name``: their import."""

    @asynccontextmanager
    async def connect(_: Target) -> AsyncIterator[Any]:
        yield cluster

    for module in modules:
        monkeypatch.setattr(module, name, connect)


def node_cache(name: str, **status: Any) -> NodeCache:
    """Make a NodeCache with these fields of its status, as on the wire."""
    return NodeCache.model_validate({"metadata": {"name": name}, "status": status})


def condition(kind: str, status: str, message: str, **fields: Any) -> dict[str, Any]:
    """Make a condition as on the wire."""
    since = {"reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"type": kind, "status": status, "message": message} | since | fields

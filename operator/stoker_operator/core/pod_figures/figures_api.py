"""The API group figures.stoker.dev: its objects as JSON, and how it recognizes the API server's proxy. Pure.

The path is parsed exactly as the client sent it. The API server authorizes these parts, so none may be normalized here.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from stoker_api.jobs.pod_figures import API_VERSION, FRESH_SECONDS, GROUP, PLURAL, VERSION, PodFigures
from stoker_api.node_caches.node_workload import NodeWorkload

_NAMESPACE = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME = r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?"
_PATH = re.compile(
    rf"/apis/{re.escape(GROUP)}/{VERSION}(?:/namespaces/(?P<namespace>{_NAMESPACE}))?/{PLURAL}(?:/(?P<name>{_NAME}))?"
)
GROUP_PATH, VERSION_PATH = f"/apis/{GROUP}", f"/apis/{API_VERSION}"
_REASONS = {400: "BadRequest", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed", 503: "ServiceUnavailable"}
_COLUMNS = (
    ("Name", "string", "name", 0),
    ("Node", "string", "", 0),
    ("Phase", "string", "", 0),
    ("Epoch", "string", "", 0),
    ("Items/s", "string", "", 0),
    ("Stall", "string", "", 0),
    ("Age", "string", "", 0),
    ("Message", "string", "", 1),
)


class Asked(NamedTuple):
    """A parsed path: the pod ``name``, all pods of ``namespace``, or (empty) all pods of all namespaces."""

    namespace: str
    name: str


def asked(path: str) -> Asked | None:
    """Parse a raw path. None: it is no path of podfigures."""
    match = _PATH.fullmatch(path)
    if match is None or (match["name"] and not match["namespace"]):
        return None
    return Asked(match["namespace"] or "", match["name"] or "")


def discovery(path: str) -> dict[str, Any] | None:
    """Return the discovery document of a path, or None."""
    version = {"groupVersion": API_VERSION, "version": VERSION}
    if path == GROUP_PATH:
        return {
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": GROUP,
            "versions": [version],
            "preferredVersion": version,
        }
    if path != VERSION_PATH:
        return None
    resource = {
        "name": PLURAL,
        "singularName": PLURAL,
        "namespaced": True,
        "kind": PodFigures.KIND,
        "verbs": ["get", "list"],
        "shortNames": ["pf"],
        "categories": ["stoker"],
    }
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION, "resources": [resource]}


def refusal(status: int, sentence: str) -> dict[str, Any]:
    """Return a metav1.Status."""
    kind = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return kind | {"message": sentence, "reason": _REASONS.get(status, "InternalError"), "code": status}


def objects(rows: Sequence[PodFigures]) -> dict[str, Any]:
    """Return a list of objects."""
    items = [row.wire() for row in rows]
    return {"kind": f"{PodFigures.KIND}List", "apiVersion": API_VERSION, "metadata": {}, "items": items}


def table(rows: Sequence[PodFigures]) -> dict[str, Any]:
    """Return a metav1.Table, which kubectl prints."""
    columns = [
        {"name": name, "type": kind, "format": form, "description": "", "priority": priority}
        for name, kind, form, priority in _COLUMNS
    ]
    cells = [{"cells": _cells(row), "object": _partial(row)} for row in rows]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": columns,
        "rows": cells,
    }


def _partial(row: PodFigures) -> dict[str, Any]:
    meta = row.wire()["metadata"]
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}


def _cells(row: PodFigures) -> list[str]:
    work = row.workload
    fresh = row.age_seconds <= FRESH_SECONDS
    rate = "" if work.items_per_second is None else f"{work.items_per_second:,g}"
    stall = "" if work.stall_percent is None else f"{work.stall_percent}%"
    words = (work.phase, _epoch(work, fresh=fresh), rate, stall)
    return [row.metadata.name, row.node, *(word or "-" for word in words), f"{row.age_seconds:.0f}s", row.message]


def _epoch(work: NodeWorkload, *, fresh: bool) -> str:
    """Format the epoch, counted from 1, and its progress."""
    if work.epoch is None:
        return ""
    of = "" if work.epochs is None else f"/{work.epochs}"
    if work.epoch_progress is None:
        return f"{work.epoch + 1}{of}"
    return f"{work.epoch + 1}{of}, {'' if fresh else '~'}{100 * work.epoch_progress:.0f}%"


_AUTHORITIES, _NAMES = "requestheader-client-ca-file", "requestheader-allowed-names"
_COMMON_NAME = "commonName"


@dataclass(frozen=True)
class ProxyTrust:
    """The clients that count as the API server's proxy.

    ``authorities``: a PEM bundle. ``names``: allowed common names of the proxy's certificate; empty: any.
    """

    authorities: str
    names: frozenset[str] = frozenset()

    def is_proxy(self, certificate: Mapping[str, Any] | None) -> bool:
        """Return True if a verified certificate, as ``ssl`` provides it, is the proxy's."""
        if not certificate:
            return False
        pairs = [pair for part in certificate.get("subject", ()) for pair in part]
        return not self.names or any(key == _COMMON_NAME and value in self.names for key, value in pairs)


def proxy_trust(config_map: Mapping[str, Any]) -> ProxyTrust | None:
    """Parse the ConfigMap. None: no aggregation layer. Raises ValueError for unreadable names."""
    data = config_map.get("data") or {}
    if not data.get(_AUTHORITIES):
        return None
    names = json.loads(data.get(_NAMES) or "[]")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{_NAMES} is no list of names")
    return ProxyTrust(data[_AUTHORITIES], frozenset(names))

"""The objects of a cluster at rest, as its API server lists them: with all that it and their writers put on them."""

import asyncio
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from bench.led_cluster import LedCluster
from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.meta import Condition
from stoker_api.nodecache import NodeCache
from stoker_kube.api import Object
from stoker_kube.resources import (
    DATASETS,
    NODE_CACHES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Kind,
)
from stoker_operator.core.views import COMPONENT_LABEL, SIDECAR_COMPONENT
from stoker_operator.core.volumes import persistent_volume, persistent_volume_claim

NAMESPACE = "stoker"  # of the operator and the sidecars
_SECRET = "keys"
_SILENT = 50  # of so many nodes one has a sidecar that is ready and never says a word
_MADE = "2026-01-01T00:00:00Z"
_RIGHTS = {"roles": ROLES, "role_bindings": ROLE_BINDINGS, "node_accounts": SERVICE_ACCOUNTS}


def save_objects(nodes: int, datasets: int, everywhere: int, path: Path) -> None:
    """Plan a cluster, and write a line for each of its objects: the path of its list, its own, and the object."""
    cluster = LedCluster(nodes, datasets, everywhere, _SECRET)
    cluster.make()
    table = cluster.state.node_caches
    for number, cache in enumerate(list(table.snapshot().values())):
        table.put(cache.key, _with_figures(cache, number))
    cluster.silence(nodes // _SILENT)
    asyncio.run(cluster.settle())
    versions = count(1)
    with path.open("w") as file:
        for kind, namespace, body in _objects(cluster):
            body["metadata"]["resourceVersion"] = str(next(versions))
            typed = {"apiVersion": kind.api_version, "kind": kind.kind} | body
            own = kind.path(body["metadata"].get("namespace", ""), body["metadata"]["name"])
            file.write(f"{kind.path(namespace)} {own} {json.dumps(typed, separators=(',', ':'))}\n")


def _objects(cluster: LedCluster) -> Iterator[tuple[Kind, str, Object]]:
    state = cluster.state
    for node in cluster.nodes:
        yield NODES, "", _node(node)
        yield PODS, "", _pod(node, "stoker-sidecar", containers=2)
        yield PODS, "", _pod(node, "network", containers=1)
        yield NODE_CACHES, "", _node_cache(state.node_caches.snapshot()[node])
    for dataset in state.datasets.snapshot().values():
        assert isinstance(dataset, Dataset)
        yield DATASETS, "", _written(dataset.wire(), "kubectl", "stoker")
        bound = {"status": {"phase": "Bound"}}
        yield PERSISTENT_VOLUMES, "", _written(persistent_volume(dataset), "stoker") | bound
        yield PERSISTENT_VOLUME_CLAIMS, "", _written(persistent_volume_claim(dataset), "stoker") | bound
    for table, kind in _RIGHTS.items():
        for row in getattr(state, table).snapshot().values():
            namespace = row["metadata"]["namespace"] if kind is SERVICE_ACCOUNTS else ""
            yield kind, namespace, _written(dict(row), "stoker")


def _written(body: Object, *managers: str) -> Object:
    """Add what the API server notes of an object's writers."""
    metadata: dict[str, Any] = {"creationTimestamp": _MADE, "generation": 1} | body["metadata"]
    fields = {"f:metadata": {"f:labels": {".": {}}, "f:finalizers": {".": {}}}, "f:spec": {"f:datasets": {}}}
    metadata["managedFields"] = [
        {"manager": one, "operation": "Apply", "apiVersion": "v1", "time": _MADE, "fieldsType": "FieldsV1"}
        | {"fieldsV1": fields}
        for one in managers
    ]
    return body | {"metadata": metadata}


def _node_cache(cache: NodeCache) -> Object:
    """Return one as operator and sidecar write it."""
    name = cache.metadata.name
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": name}
    metadata = cache.metadata.wire() | {"ownerReferences": [owner]}
    spec = cache.spec.wire(shared_neighbours=cache.status.shared_neighbours)
    body = _written({"metadata": metadata, "spec": spec}, "stoker", "sidecar")
    return body | {"status": cache.status.wire()} if cache.status.inventory else body


def _with_figures(cache: NodeCache, number: int) -> NodeCache:
    """Return it with all that a sidecar says, and with figures that no other node has."""
    rows = tuple(
        row.model_copy(
            update={
                "observed_generation": 1,
                "fetched_files": (number * 7 + place) % 1000,
                "source_bytes": row.bytes // 3 + 1009 * number + place,
                "peer_bytes": row.bytes * 2 // 3 + 2003 * number + place,
                "best_source_bytes_per_second": 400_000_000 + 10_000_000 * (number % 30),
            }
        )
        for place, row in enumerate(cache.status.datasets)
    )
    ready = Condition(type="Ready", status="True", reason="Ready", last_transition_time=_MADE)
    status = cache.status.model_copy(update={"datasets": rows, "conditions": (ready,)})
    return cache.model_copy(update={"status": status})


def _node(name: str) -> Object:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    room = {"cpu": "96", "memory": "1Ti", "pods": "110", "ephemeral-storage": "4Ti", "nvidia.com/gpu": "8"}
    conditions = [
        {"type": one, "status": status, "reason": f"Kubelet{one}", "message": f"kubelet says {one} of its node"}
        | {"lastHeartbeatTime": _MADE, "lastTransitionTime": _MADE}
        for one, status in (
            ("MemoryPressure", "False"),
            ("DiskPressure", "False"),
            ("PIDPressure", "False"),
            ("Ready", "True"),
        )
    ]
    images = [{"names": [f"registry.example/image-{number}@sha256:{number:064x}"]} for number in range(20)]
    status = {"allocatable": room, "capacity": room, "conditions": conditions, "images": images}
    return _written({"metadata": {"name": name, "uid": name, "labels": labels}, "status": status}, "kubelet", "manager")


def _pod(node: str, daemon_set: str, containers: int) -> Object:
    """Return a pod of a DaemonSet; the sidecar's has the labels by which it is known."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemon_set, "uid": daemon_set, "controller": True}
    labels = {"app.kubernetes.io/name": daemon_set, "controller-revision-hash": "5f4d8b9c7"}
    if daemon_set == "stoker-sidecar":
        labels |= {COMPONENT_LABEL: SIDECAR_COMPONENT, names.LABEL_NODE_ACCOUNT: "true"}
    name = f"{daemon_set}-{node}"
    metadata = {"namespace": NAMESPACE, "name": name, "uid": name, "labels": labels, "ownerReferences": [owner]}
    said = [{"type": one, "status": "True", "lastTransitionTime": _MADE} for one in ("Initialized", "Ready")]
    status = {"phase": "Running", "conditions": said, "podIP": "10.0.0.1"}
    tolerations = [{"operator": "Exists", "effect": effect} for effect in ("NoExecute", "NoSchedule")]
    spec = {
        "nodeName": node,
        "containers": [_container(number) for number in range(containers)],
        "volumes": [{"name": f"volume-{number}", "hostPath": {"path": f"/var/lib/{number}"}} for number in range(8)],
        "tolerations": tolerations,
    }
    return _written({"metadata": metadata, "spec": spec, "status": status}, "manager", "kubelet")


def _container(number: int) -> Object:
    environment = [{"name": f"SETTING_{name}", "value": f"value of {name}"} for name in range(25)]
    mounts = [{"name": f"volume-{mount}", "mountPath": f"/var/lib/{mount}"} for mount in range(8)]
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}
    return {"name": f"c{number}", "image": "registry.example/image:1", "env": environment, "volumeMounts": mounts} | {
        "resources": resources
    }

"""A healthy cluster with one node, as the API server shows it, behind an API client. Tests plant faults in it."""

import base64
import copy
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from stoker_api import names
from stoker_api.schema import crds
from stoker_api.times import format_time
from stoker_cli.support.facts import labels_of
from stoker_kube.api import Listing, Object
from stoker_kube.client import ServerVersion
from stoker_kube.errors import Forbidden, Invalid, KubeError, NotFound
from stoker_kube.resources import (
    CRDS,
    CSI_DRIVERS,
    CSI_NODES,
    DAEMON_SETS,
    DATASETS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODE_CACHES,
    NODES,
    PODS,
    TUNING_PROFILES,
    VALIDATING_WEBHOOKS,
    Kind,
)
from tests.fakes.selectors import matches_fields, matches_labels

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()
RELEASE = "stoker-system"
NODE = "gpu-1"
DENIED = 'admission webhook "pods.stoker.dev" denied the request: "!" does not name a Dataset'


def authority(days: float) -> str:
    """Return a caBundle whose certificate ends ``days`` after NOW."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stoker")])
    now = datetime.fromtimestamp(NOW, UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - timedelta(days=900))
    builder = builder.not_valid_after(now + timedelta(days=days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    return base64.b64encode(certificate.public_bytes(serialization.Encoding.PEM)).decode()


_BUNDLE = authority(days=300)
_CRDS = tuple(crds().values())


def labels(component: str) -> dict[str, str]:
    """Return the labels of the chart's objects."""
    return {
        "app.kubernetes.io/name": "stoker",
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/version": "0.1.0",
    }


def condition(kind: str, status: str = "True", **fields: str) -> dict[str, str]:
    """Make a condition."""
    return {"type": kind, "status": status, "reason": kind, "lastTransitionTime": format_time(NOW)} | fields


def pod(name: str, component: str, node: str = "") -> Object:
    """Make a ready pod of the release."""
    return {
        "metadata": {"name": name, "namespace": RELEASE, "labels": labels(component)},
        "spec": {"nodeName": node, "containers": [{"name": component}]},
        "status": {"conditions": [condition("Ready")], "containerStatuses": [{"name": component, "state": {}}]},
    }


def _webhook(name: str) -> Object:
    client = {"service": {"name": "stoker-webhook", "path": f"/mutate/{'ab' * 32}"}, "caBundle": _BUNDLE}
    return {
        "metadata": {"name": "stoker", "labels": labels("webhook")},
        "webhooks": [{"name": name, "clientConfig": client}],
    }


def _served(crd: Any) -> Object:
    return {**copy.deepcopy(crd), "status": {"conditions": [condition("Established")]}}


def _cache() -> Object:
    folder = {"path": "/var/lib/stoker/cache", "capacityBytes": 2**40, "availableBytes": 2**39, "healthy": True}
    status = {
        "conditions": [condition("Ready")],
        "sidecarVersion": "0.1.0",
        "modes": ["native", "overlay", "fuse"],
        "observer": "Fanotify, with 1.00% of a core",
        "confinement": "Landlock",
        "cacheFolders": [folder],
    }
    return {"metadata": {"name": NODE}, "status": status}


def _kubelet_lease() -> Object:
    fields = [{"manager": "kubelet", "time": format_time(NOW - 4)}]
    metadata = {"name": NODE, "namespace": "kube-node-lease", "managedFields": fields}
    return {"metadata": metadata, "spec": {"renewTime": format_time(NOW - 4)}}


def _dataset() -> Object:
    return {
        "metadata": {"name": "imagenet", "namespace": "vision"},
        "spec": {"source": {"uri": "s3://bucket/imagenet/"}},
        "status": {"conditions": [condition("Accepted"), condition("Listed"), condition("Degraded", "False")]},
    }


class SickCluster:
    """An API server with the objects of a healthy release. Tests change ``objects`` and ``forbidden``.

    ``asked``: the kinds of all requests. ``answer``: the refusal of the test pod; None: it is admitted.
    """

    def __init__(self) -> None:
        replicas = {"replicas": 2}
        rolled_out = {"desiredNumberScheduled": 1, "numberReady": 1, "updatedNumberScheduled": 1}
        release = {"namespace": RELEASE}
        self.objects: dict[Kind, list[Object]] = {
            CRDS: [_served(crd) for crd in _CRDS],
            DEPLOYMENTS: [
                {
                    "metadata": {"name": "stoker-operator", "labels": labels("operator")} | release,
                    "spec": replicas,
                    "status": {"readyReplicas": 2},
                }
            ],
            DAEMON_SETS: [
                {"metadata": {"name": "stoker-sidecar", "labels": labels("sidecar")} | release, "status": rolled_out}
            ],
            PODS: [pod("stoker-operator-1", "operator"), pod("stoker-sidecar-1", "sidecar", NODE)],
            LEASES: [
                {
                    "metadata": {"name": "stoker-operator"} | release,
                    "spec": {"holderIdentity": "stoker-operator-1", "renewTime": format_time(NOW - 3)},
                },
                _kubelet_lease(),
            ],
            MUTATING_WEBHOOKS: [_webhook("pods.stoker.dev")],
            VALIDATING_WEBHOOKS: [_webhook("tuningprofiles.stoker.dev")],
            CSI_DRIVERS: [{"metadata": {"name": names.CSI_DRIVER}}],
            CSI_NODES: [{"metadata": {"name": NODE}, "spec": {"drivers": [{"name": names.CSI_DRIVER}]}}],
            NODES: [
                {
                    "metadata": {"name": NODE},
                    "status": {"nodeInfo": {"kernelVersion": "6.12.9"}, "conditions": [condition("Ready")]},
                }
            ],
            NODE_CACHES: [_cache()],
            DATASETS: [_dataset()],
            TUNING_PROFILES: [],
            EVENTS: [],
        }
        self.forbidden: set[Kind] = set()
        self.absent: set[Kind] = set()
        self.asked: list[Kind] = []
        self.answer: KubeError | None = Invalid(422, "Invalid", DENIED)
        self.logs: dict[str, bytes] = {}

    def one(self, kind: Kind, number: int = 0) -> Object:
        """Return an object, to change it."""
        return self.objects[kind][number]

    async def list(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        self.asked.append(kind)
        if kind in self.forbidden:
            raise Forbidden(403, "Forbidden", f"{kind.plural} is forbidden")
        if kind in self.absent:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        selectors = (namespace, label_selector, field_selector)
        return Listing([each for each in self._of(kind) if _chosen(each, *selectors)], "1")

    def _of(self, kind: Kind) -> Sequence[Object]:
        typed = {"apiVersion": kind.api_version, "kind": kind.kind}
        return [typed | copy.deepcopy(each) for each in self.objects.get(kind, ())]

    async def version(self) -> ServerVersion:
        return ServerVersion("v1.36.0", NOW)

    async def dry_run(self, kind: Kind, body: Object, namespace: str) -> Object:
        self.asked.append(kind)
        if self.answer is not None:
            raise self.answer
        return body

    async def pod_log(self, name: str, namespace: str, container: str, *, most: int, previous: bool = False) -> bytes:
        log = self.logs.get(f"{name}/{container}{'/previous' if previous else ''}")
        if log is None:
            raise NotFound(404, "NotFound", f"no log of {name}")
        return log[-most:]


def _chosen(item: Object, namespace: str, label_selector: str, field_selector: str) -> bool:
    here = not namespace or item["metadata"].get("namespace") == namespace
    return here and matches_labels(labels_of(item), label_selector) and matches_fields(item, field_selector)

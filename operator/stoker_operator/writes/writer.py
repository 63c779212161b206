"""All writes of the running operator, each safe to repeat and counted."""

from dataclasses import replace
from typing import Final

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_api.jobs.trainingjob import TrainingJob, TrainingJobStatus
from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.node_caches.peers import PeerCertificate
from stoker_api.profiles.tuningprofile import TuningProfileStatus
from stoker_kube.api import JSON, Kube, Object
from stoker_kube.errors import AlreadyExists, NotFound
from stoker_kube.resources import (
    DATASETS,
    NODE_CACHES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SERVICE_ACCOUNTS,
    TRAINING_JOBS,
    TUNING_PROFILES,
    Kind,
)
from stoker_operator import metrics
from stoker_operator.core.classes.profiles import ProfileView
from stoker_operator.core.plans.admission import parse_dataset, parse_training_job
from stoker_operator.core.plans.plan import NodeCacheWrite
from stoker_operator.core.plans.volumes import persistent_volume, persistent_volume_claim
from stoker_operator.core.views.cluster import InvalidDataset, InvalidTrainingJob
from stoker_operator.core.views.node_cache_reader import NodeCacheReader
from stoker_operator.writes.write_budget import WriteBudget

FIELD_MANAGER = "stoker-operator"
PEERS_MANAGER = "stoker-peer-certificates"  # for the certificates of nodes


class Writer:
    """The only writer of the running operator. All methods raise only stoker_kube.errors.KubeError.

    ``budget``: the cluster's budget, which counts each write; keyed actions wait for it before they start.
    """

    def __init__(self, kube: Kube, budget: WriteBudget | None = None) -> None:
        self._kube: Final = kube
        self.budget: Final = budget
        self._node_caches: Final = NodeCacheReader()

    @property
    def _writing(self) -> Kube:
        """The client for one write request; counts it in the budget."""
        if self.budget is not None:
            self.budget.spend()
        return self._kube

    async def node_cache(self, write: NodeCacheWrite) -> NodeCache:
        """Create or change the spec of one NodeCache; its Node owns it."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": write.node.name, "uid": write.node.uid}
        metadata: Object = {"name": write.node.name, "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}}
        metadata |= {"ownerReferences": [owner]} if write.node.uid else {}
        body: Object = {"metadata": metadata, "spec": write.spec.wire(shared_neighbours=write.shared_neighbours)}
        raw = await self._writing.apply(NODE_CACHES, body, field_manager=FIELD_MANAGER)
        _count(NODE_CACHES, "apply")
        return self._node_caches.view(raw)

    async def node_certificate(self, node: str, uid: str, peer: PeerCertificate) -> NodeCache:
        """Replace the certificate in a NodeCache's spec; empty: remove it. Invalid if the UID differs.

        Uses a separate field manager, because plans are written without the certificate.
        """
        spec: Object = {"peer": peer.model_dump(by_alias=True)} if peer.certificate else {}
        body: Object = {"metadata": {"name": node, "uid": uid}, "spec": spec}
        raw = await self._writing.apply(NODE_CACHES, body, field_manager=PEERS_MANAGER)
        _count(NODE_CACHES, "apply")
        return self._node_caches.view(raw)

    async def dataset_status(self, meta: ObjectMeta, status: DatasetStatus) -> Dataset | InvalidDataset | None:
        """Replace a Dataset's status. None if the Dataset is gone; Conflict if it has changed since ``meta``."""
        body = _status_of(meta, status.wire())
        try:
            raw = await self._writing.apply(DATASETS, body, field_manager=FIELD_MANAGER, subresource="status")
        except NotFound:
            return None
        _count(DATASETS, "apply")
        return parse_dataset(raw)

    async def dataset_finalizers(self, meta: ObjectMeta, finalizers: tuple[str, ...]) -> Dataset | InvalidDataset:
        """Replace a Dataset's finalizers. Conflict if the Dataset has changed since ``meta``."""
        body: Object = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": list(finalizers)}}
        raw = await self._writing.patch(DATASETS, meta.name, body, meta.namespace)
        _count(DATASETS, "patch")
        return parse_dataset(raw)

    async def training_job_status(
        self, meta: ObjectMeta, status: TrainingJobStatus
    ) -> TrainingJob | InvalidTrainingJob:
        """Replace a TrainingJob's status. Raises NotFound, and Conflict if it has changed since ``meta``."""
        body = _status_of(meta, status.wire())
        raw = await self._writing.apply(TRAINING_JOBS, body, field_manager=FIELD_MANAGER, subresource="status")
        _count(TRAINING_JOBS, "apply")
        return parse_training_job(raw)

    async def tuning_profile_status(self, profile: ProfileView, status: TuningProfileStatus) -> ProfileView:
        """Replace a TuningProfile's status. Raises NotFound, and Conflict if it has changed since ``profile``."""
        meta = profile.metadata
        body = _status_of(meta, status.wire())
        raw = await self._writing.apply(TUNING_PROFILES, body, field_manager=FIELD_MANAGER, subresource="status")
        _count(TUNING_PROFILES, "apply")
        written = ObjectMeta.model_validate(raw["metadata"])
        # The watch delivers a new generation, and then it is parsed.
        known = written if written.generation == meta.generation else meta
        return replace(profile, metadata=known, status=TuningProfileStatus.model_validate(raw.get("status") or {}))

    async def create_volume(self, dataset: Dataset) -> bool:
        """Create the PersistentVolume; False if one of that name exists."""
        return await self._create_absent(PERSISTENT_VOLUMES, persistent_volume(dataset))

    async def create_claim(self, dataset: Dataset) -> bool:
        """Create the PersistentVolumeClaim; False if one of that name exists."""
        return await self._create_absent(PERSISTENT_VOLUME_CLAIMS, persistent_volume_claim(dataset))

    async def apply(self, kind: Kind, body: Object) -> Object:
        """Create an object, or set the fields of ``body``."""
        written = await self._writing.apply(kind, body, field_manager=FIELD_MANAGER)
        _count(kind, "apply")
        return written

    async def apply_status(self, kind: Kind, body: Object, field_manager: str) -> Object:
        """Apply to the status of a foreign object, under ``field_manager``.

        Raises NotFound, and Conflict if ``body`` names an outdated UID or resourceVersion.
        """
        written = await self._writing.apply(kind, body, field_manager=field_manager, subresource="status")
        _count(kind, "apply")
        return written

    async def create_account(self, body: Object, namespace: str) -> Object:
        """Create a ServiceAccount. Raises AlreadyExists."""
        return await self.create(SERVICE_ACCOUNTS, body, namespace)

    async def create(self, kind: Kind, body: Object, namespace: str) -> Object:
        """Create an object. Raises AlreadyExists."""
        made = await self._writing.create(kind, body, namespace)
        _count(kind, "create")
        return made

    async def merge(self, kind: Kind, name: str, namespace: str, patch: Object, subresource: str = "") -> Object:
        """Change the fields in ``patch`` (RFC 7386). Raises NotFound, and Invalid if it names another UID."""
        written = await self._writing.patch(kind, name, patch, namespace, subresource=subresource)
        _count(kind, "patch")
        return written

    async def edit(self, kind: Kind, name: str, namespace: str, operations: list[Object]) -> Object:
        """Apply the operations of a JSON patch (RFC 6902). Raises NotFound, and Invalid if a test fails."""
        written = await self._writing.patch(kind, name, operations, namespace, content_type=JSON)
        _count(kind, "patch")
        return written

    async def delete(self, kind: Kind, name: str, namespace: str = "", uid: str = "") -> None:
        """Delete an object; it may be gone already."""
        try:
            await self._writing.delete(kind, name, namespace, uid=uid)
        except NotFound:
            return
        _count(kind, "delete")

    async def get(self, kind: Kind, name: str, namespace: str) -> Object:
        """Read an object. Raises NotFound."""
        return await self._kube.get(kind, name, namespace)

    async def find(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """Return an object, or None."""
        try:
            return await self._kube.get(kind, name, namespace)
        except NotFound:
            return None

    async def _create_absent(self, kind: Kind, body: Object) -> bool:
        try:
            await self.create(kind, body, "")
        except AlreadyExists:
            return False
        return True


def _status_of(meta: ObjectMeta, status: Object) -> Object:
    """Return the body for ``apply``. Its version names the object, because a status ignores the UID."""
    scope = {"namespace": meta.namespace} if meta.namespace else {}
    return {"metadata": {"name": meta.name, "resourceVersion": meta.resource_version} | scope, "status": status}


def _count(kind: Kind, verb: str) -> None:
    metrics.WRITES.labels(kind.kind, verb).inc()

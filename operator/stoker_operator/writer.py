"""Every write of the running operator, each safe to repeat and counted."""

from dataclasses import replace
from typing import Final

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.dataset_status import DatasetStatus
from stoker_api.meta import ObjectMeta
from stoker_api.nodecache import NodeCache
from stoker_api.trainingjob import TrainingJob, TrainingJobStatus
from stoker_api.tuningprofile import TuningProfileStatus
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
from stoker_operator.core.acceptance import parse_dataset, parse_training_job
from stoker_operator.core.node_cache_reader import NodeCacheReader
from stoker_operator.core.plan import NodeCacheWrite
from stoker_operator.core.profiles import ProfileView
from stoker_operator.core.views import InvalidDataset, InvalidTrainingJob
from stoker_operator.core.volumes import persistent_volume, persistent_volume_claim
from stoker_operator.write_budget import WriteBudget

FIELD_MANAGER = "stoker-operator"


class Writer:
    """The one writer of the running operator. All methods raise stoker_kube.errors.KubeError and nothing else.

    ``budget``: the cluster's, in which each write is noted; who acts by key waits for it before it begins.
    """

    def __init__(self, kube: Kube, budget: WriteBudget | None = None) -> None:
        self._kube: Final = kube
        self.budget: Final = budget
        self._node_caches: Final = NodeCacheReader()

    @property
    def _writing(self) -> Kube:
        """The API server, for one request that writes."""
        if self.budget is not None:
            self.budget.spend()
        return self._kube

    async def node_cache(self, write: NodeCacheWrite) -> NodeCache:
        """Create or change the spec of one NodeCache; it belongs to its Node and goes with it."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": write.node.name, "uid": write.node.uid}
        metadata: Object = {"name": write.node.name, "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}}
        metadata |= {"ownerReferences": [owner]} if write.node.uid else {}
        body: Object = {"metadata": metadata, "spec": write.spec.wire(shared_neighbours=write.shared_neighbours)}
        raw = await self._writing.apply(NODE_CACHES, body, field_manager=FIELD_MANAGER)
        _count(NODE_CACHES, "apply")
        return self._node_caches.view(raw)

    async def dataset_status(self, key: str, uid: str, status: DatasetStatus) -> Dataset | InvalidDataset | None:
        """Replace a Dataset's status. None when the Dataset is gone; Conflict when another one has its name."""
        namespace, _, name = key.partition("/")
        body: Object = {"metadata": {"namespace": namespace, "name": name, "uid": uid}, "status": status.wire()}
        try:
            raw = await self._writing.apply(DATASETS, body, field_manager=FIELD_MANAGER, subresource="status")
        except NotFound:
            return None
        _count(DATASETS, "apply")
        return parse_dataset(raw)

    async def dataset_finalizers(self, meta: ObjectMeta, finalizers: tuple[str, ...]) -> Dataset | InvalidDataset:
        """Replace a Dataset's finalizers. Conflict when it is not as ``meta`` says any more."""
        body: Object = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": list(finalizers)}}
        raw = await self._writing.patch(DATASETS, meta.name, body, meta.namespace)
        _count(DATASETS, "patch")
        return parse_dataset(raw)

    async def training_job_status(
        self, meta: ObjectMeta, status: TrainingJobStatus
    ) -> TrainingJob | InvalidTrainingJob:
        """Replace a TrainingJob's status. Raises NotFound, and Conflict when another one has its name."""
        body: Object = {"metadata": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}}
        body["status"] = status.wire()
        raw = await self._writing.apply(TRAINING_JOBS, body, field_manager=FIELD_MANAGER, subresource="status")
        _count(TRAINING_JOBS, "apply")
        return parse_training_job(raw)

    async def tuning_profile_status(self, profile: ProfileView, status: TuningProfileStatus) -> ProfileView:
        """Replace a TuningProfile's status. Raises NotFound, and Conflict when another one has its name."""
        meta = profile.metadata
        body: Object = {"metadata": {"name": meta.name, "uid": meta.uid}, "status": status.wire()}
        raw = await self._writing.apply(TUNING_PROFILES, body, field_manager=FIELD_MANAGER, subresource="status")
        _count(TUNING_PROFILES, "apply")
        written = ObjectMeta.model_validate(raw["metadata"])
        # Another generation comes by the watch, which has it read.
        known = written if written.generation == meta.generation else meta
        return replace(profile, metadata=known, status=TuningProfileStatus.model_validate(raw.get("status") or {}))

    async def create_volume(self, dataset: Dataset) -> bool:
        """Make the PersistentVolume; False when one of that name is there."""
        return await self._create_absent(PERSISTENT_VOLUMES, persistent_volume(dataset))

    async def create_claim(self, dataset: Dataset) -> bool:
        """Make the PersistentVolumeClaim; False when one of that name is there."""
        return await self._create_absent(PERSISTENT_VOLUME_CLAIMS, persistent_volume_claim(dataset))

    async def apply(self, kind: Kind, body: Object) -> Object:
        """Make an object, or bring the fields of ``body`` to what it says."""
        written = await self._writing.apply(kind, body, field_manager=FIELD_MANAGER)
        _count(kind, "apply")
        return written

    async def apply_status(self, kind: Kind, body: Object, field_manager: str) -> Object:
        """Apply to the status of another's object, in a name of its own.

        Raises NotFound, and Conflict where ``body`` names a resourceVersion and it is another one by now.
        """
        written = await self._writing.apply(kind, body, field_manager=field_manager, subresource="status")
        _count(kind, "apply")
        return written

    async def create_account(self, body: Object, namespace: str) -> Object:
        """Make a ServiceAccount. Raises AlreadyExists."""
        return await self.create(SERVICE_ACCOUNTS, body, namespace)

    async def create(self, kind: Kind, body: Object, namespace: str) -> Object:
        """Create an object. Raises AlreadyExists."""
        made = await self._writing.create(kind, body, namespace)
        _count(kind, "create")
        return made

    async def merge(self, kind: Kind, name: str, namespace: str, patch: Object, subresource: str = "") -> Object:
        """Change the fields in ``patch`` (RFC 7386). Raises NotFound, and Conflict when it names another UID."""
        written = await self._writing.patch(kind, name, patch, namespace, subresource=subresource)
        _count(kind, "patch")
        return written

    async def edit(self, kind: Kind, name: str, namespace: str, operations: list[Object]) -> Object:
        """Change an object by the operations of a JSON patch (RFC 6902). Raises NotFound, Invalid when a test fails."""
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
        """Find an object, or None."""
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


def _count(kind: Kind, verb: str) -> None:
    metrics.WRITES.labels(kind.kind, verb).inc()

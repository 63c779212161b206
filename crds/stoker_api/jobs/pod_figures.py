"""PodFigures: a pod's current use of its Datasets, which the operator answers from the nodes. Nothing stores them."""

from typing import Annotated, ClassVar

from pydantic import Field

from stoker_api import names
from stoker_api.meta import Model, ObjectMeta
from stoker_api.node_caches.node_hardware import NodeHardware
from stoker_api.node_caches.node_storage import NodeMount
from stoker_api.node_caches.node_workload import NodeWorkload

GROUP = f"figures.{names.GROUP}"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
PLURAL = "podfigures"
FRESH_SECONDS = 2.0  # older figures carry a message with their age


class PodFigures(Model):
    """The figures of one pod. Their name and namespace are the pod's."""

    KIND: ClassVar[str] = "PodFigures"

    metadata: ObjectMeta
    node: Annotated[str, Field(max_length=253)] = ""
    age_seconds: Annotated[float, Field(description="Seconds since the node took the figures.", ge=0)] = 0.0
    message: Annotated[str, Field(description="Why the figures are old. Empty: they are fresh.", max_length=512)] = ""
    workload: NodeWorkload
    mounts: tuple[NodeMount, ...] = ()
    hardware: NodeHardware | None = None

    def wire(self) -> dict[str, object]:
        """Return the JSON form."""
        meta = {"name": self.metadata.name, "namespace": self.metadata.namespace, "uid": self.metadata.uid}
        return {"apiVersion": API_VERSION, "kind": self.KIND} | super().wire() | {"metadata": meta}

"""A node's direct answer, with everything that its NodeCache leaves out to stay small."""

from typing import Annotated

from pydantic import Field

from stoker_api.goodput import EndedPod
from stoker_api.meta import BoundedModel, Model, ShortMessage
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_api.node_caches.node_hardware import NodeHardware
from stoker_api.node_caches.node_storage import NodeMount
from stoker_api.node_caches.node_workload import NodeWorkload

# Bytes of a request and of an answer; and rows of history in an answer.
MOST_ASKED, MOST_TOLD = 4096, 4 * 1024 * 1024
MOST_HISTORY = 1000


class MountFigures(Model):
    """Observed figures of a mount. ``workloads`` are its readers. ``unseen`` says why nothing observes it, or is empty.

    ``tuning`` is the file of the rules in force. Empty: the built-in ones.
    """

    folder: str
    workloads: tuple[NodeWorkload, ...] = ()
    unseen: str = ""
    tuning: str = ""
    hardware: NodeHardware = NodeHardware()


PATH = "/node/status"  # on the port below, at the loopback address of a sidecar's pod
PORT = 8083
FIGURES_PATH = "/figures"  # on the peer port, only for the operator: pods, their mounts, and the machine
MOST_FIGURES_BYTES = 2**20  # of that answer
MOST_BYTES = 16 * 2**20  # of an answer, which the sidecar keeps; a node with 10,000 Datasets needs less


class NodeAnswer(BoundedModel):
    """The current state of a node, from its sidecar. Bytes everywhere."""

    node: Annotated[str, Field(max_length=253)]
    sidecar_version: Annotated[str, Field(max_length=100)] = ""
    trouble: ShortMessage = ""
    capacity_bytes: int = 0
    used_bytes: int = 0
    available_bytes: int = 0
    datasets: tuple[NodeDatasetStatus, ...] = ()
    mounts: tuple[NodeMount, ...] = ()
    workloads: tuple[NodeWorkload, ...] = ()
    hardware: NodeHardware | None = None
    ended: tuple[EndedPod, ...] = ()
    ended_left_out: int = 0
    left_out: Annotated[int, Field(description="Rows of all lists that do not fit into the answer.")] = 0

    def about(self, dataset: str) -> "NodeAnswer":
        """Return the part about the Dataset NAMESPACE/NAME."""
        namespace, _, name = dataset.partition("/")
        rows = tuple(row for row in self.datasets if (row.namespace, row.name) == (namespace, name))
        mounts = tuple(row for row in self.mounts if (row.dataset_namespace, row.dataset) == (namespace, name))
        workloads = tuple(row for row in self.workloads if dataset in row.datasets)
        return self.model_copy(
            update={"datasets": rows, "mounts": mounts, "workloads": workloads, "ended": (), "ended_left_out": 0}
        )

"""What a node answers who asks it: all that its NodeCache leaves out to stay small."""

from typing import Annotated

from pydantic import Field

from stoker_api.goodput import EndedPod
from stoker_api.meta import Model, ShortMessage
from stoker_api.node_storage import NodeMount
from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import NodeDatasetStatus

PATH = "/node/status"  # of the port below, on the loopback address of a sidecar's pod
PORT = 8083
MOST_BYTES = 16 * 2**20  # of an answer: a node with 10,000 Datasets has less


class NodeAnswer(Model):
    """A node as its sidecar knows it now. Bytes everywhere."""

    node: Annotated[str, Field(max_length=253)]
    sidecar_version: Annotated[str, Field(max_length=100)] = ""
    trouble: ShortMessage = ""
    capacity_bytes: int = 0
    used_bytes: int = 0
    available_bytes: int = 0
    datasets: tuple[NodeDatasetStatus, ...] = ()
    mounts: tuple[NodeMount, ...] = ()
    workloads: tuple[NodeWorkload, ...] = ()
    ended: tuple[EndedPod, ...] = ()
    ended_left_out: int = 0

    def about(self, dataset: str) -> "NodeAnswer":
        """Return what of it is about the Dataset NAMESPACE/NAME."""
        namespace, _, name = dataset.partition("/")
        rows = tuple(row for row in self.datasets if (row.namespace, row.name) == (namespace, name))
        mounts = tuple(row for row in self.mounts if (row.dataset_namespace, row.dataset) == (namespace, name))
        workloads = tuple(row for row in self.workloads if dataset in row.datasets)
        return self.model_copy(
            update={"datasets": rows, "mounts": mounts, "workloads": workloads, "ended": (), "ended_left_out": 0}
        )

"""The objects that the pages show, as last read, with the rights that were missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from stoker_api.datasets.dataset import Dataset
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_cli.dashboard.core.held_pods import HeldPod
from stoker_cli.dashboard.core.node_table import NodeTable
from stoker_cli.pods.top_row import TopRow


@dataclass(frozen=True)
class KindAccess:
    """How a kind was read. ``notice``: a missing right, or why its objects are old. Empty: neither.

    ``read`` is False until the first complete answer. ``refused``: the user may not list it.
    """

    notice: str = ""
    read: bool = False
    refused: bool = False

    def shown(self, figure: str) -> str:
        """Return a figure of these objects, or why there is none."""
        if self.refused:
            return "not readable"
        return figure if self.read else "not read yet"


@dataclass(frozen=True)
class ClusterData:
    """All objects by their keys. ``namespace`` is that of the user."""

    namespace: str = ""
    datasets: Mapping[str, Dataset] = field(default_factory=dict)
    jobs: Mapping[str, TrainingJob] = field(default_factory=dict)
    held: Sequence[HeldPod] = ()
    workloads: Sequence[TopRow] = ()
    nodes: NodeTable = field(default_factory=NodeTable)
    datasets_access: KindAccess = KindAccess()
    jobs_access: KindAccess = KindAccess()
    held_access: KindAccess = KindAccess()
    workloads_access: KindAccess = KindAccess()
    nodes_access: KindAccess = KindAccess()

    def notices(self, *kinds: str) -> tuple[str, ...]:
        """Return the notices of these kinds, or of all, without duplicates."""
        chosen = kinds or tuple(
            each.name.removesuffix("_access") for each in fields(self) if each.name.endswith("_access")
        )
        accesses = [(kind, getattr(self, f"{kind}_access")) for kind in chosen]
        words = [
            access.notice or ("" if access.read else f"The {_WORDS[kind]} are not read completely yet.")
            for kind, access in accesses
        ]
        return tuple(dict.fromkeys(word for word in words if word))


_WORDS = {
    "datasets": "Datasets",
    "jobs": "TrainingJobs",
    "held": "held pods",
    "workloads": "figures of pods",
    "nodes": "NodeCaches",
}

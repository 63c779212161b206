"""Progress of a Dataset's deletion: blocked by pods, cleaning disks, or done."""

from dataclasses import dataclass

from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.node_states import NodeStates
from stoker_operator.core.views.usage import Use, pods_sentence


@dataclass(frozen=True, slots=True)
class Deletion:
    """The state of one deletion, with the message for users."""

    blocked: bool = False
    cleaning: tuple[str, ...] = ()  # nodes with data on disk
    skipped: tuple[str, ...] = ()  # unreachable nodes, which do not block the deletion
    message: str = ""

    @property
    def done(self) -> bool:
        """True if nothing blocks the deletion."""
        return not self.blocked and not self.cleaning


def known_leftovers(status: DatasetStatus, states: NodeStates, uid: str) -> tuple[str, ...]:
    """Return the nodes in the Dataset's status that still have leftovers on disk.

    The status decides, because any node may claim to have a Dataset's data.
    """
    named = {row.name for row in status.nodes}
    return tuple(sorted(named.intersection(states.leftovers(uid)))) if named else ()


def decide_deletion(view: ClusterView, states: NodeStates, key: str, uses: tuple[Use, ...]) -> Deletion:
    """Decide whether a Dataset may be deleted: no pod names it, and no ready node has its data."""
    if uses:
        return Deletion(blocked=True, message=f"in use by {pods_sentence(uses)}; it is deleted when they end")
    dataset = view.datasets.get(key) or view.invalid_datasets[key]
    uid = dataset.metadata.uid
    left = known_leftovers(dataset.status, states, uid)
    held_by = sorted(states.of_dataset(uid).items())
    here = {name: held for name, held in held_by if name in view.nodes and (not held.leftover or name in left)}
    # A silent sidecar blocks nothing. When it returns, it removes data that its NodeCache does not name.
    able = {name: view.nodes[name].ready and view.nodes[name].sidecar_ready for name in here}
    cleaning = tuple(name for name, held in here.items() if held.desired or able[name])
    skipped = tuple(name for name in here if name not in cleaning)
    return Deletion(cleaning=cleaning, skipped=skipped, message=_sentence(cleaning, skipped))


def _sentence(cleaning: tuple[str, ...], skipped: tuple[str, ...]) -> str:
    parts = [f"being removed from the disk of {', '.join(cleaning)}"] if cleaning else ["removed from all ready nodes"]
    if skipped:
        parts.append(f"{', '.join(skipped)} cannot be reached and will clean up on return")
    return "; ".join(parts)

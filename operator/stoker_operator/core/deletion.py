"""How far the deletion of a Dataset is: held by pods, being cleaned from disks, or done."""

from dataclasses import dataclass

from stoker_operator.core.node_states import NodeStates
from stoker_operator.core.usage import Use, pods_sentence
from stoker_operator.core.views import ClusterView


@dataclass(frozen=True, slots=True)
class Deletion:
    """The state of one deletion, with the sentence that people read."""

    blocked: bool = False
    cleaning: tuple[str, ...] = ()  # nodes that still have it on disk
    skipped: tuple[str, ...] = ()  # nodes that are not waited for, since they do not answer
    message: str = ""

    @property
    def done(self) -> bool:
        """True when nothing holds the object any more."""
        return not self.blocked and not self.cleaning


def decide_deletion(view: ClusterView, states: NodeStates, uid: str, uses: tuple[Use, ...]) -> Deletion:
    """Tell whether a deleted Dataset may go: no pod names it, and no ready node has it."""
    if uses:
        return Deletion(blocked=True, message=f"in use by {pods_sentence(uses)}; it goes when they have ended")
    here = {name: held for name, held in sorted(states.of_dataset(uid).items()) if name in view.nodes}
    # A silent sidecar is not waited for: when it comes back it removes what its NodeCache no longer names.
    able = {name: view.nodes[name].ready and view.nodes[name].sidecar_ready for name in here}
    cleaning = tuple(name for name, held in here.items() if held.desired or able[name])
    skipped = tuple(name for name in here if name not in cleaning)
    return Deletion(cleaning=cleaning, skipped=skipped, message=_sentence(cleaning, skipped))


def _sentence(cleaning: tuple[str, ...], skipped: tuple[str, ...]) -> str:
    parts = [f"being removed from the disk of {', '.join(cleaning)}"] if cleaning else ["removed from all ready nodes"]
    if skipped:
        parts.append(f"{', '.join(skipped)} cannot be reached and will clean up on return")
    return "; ".join(parts)

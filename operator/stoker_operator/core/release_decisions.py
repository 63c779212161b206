"""What gating decides: pods that stay and why, pods that go and where to, and where data is wanted for the others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker_api.dataset import SchedulingMode
from stoker_api.names import Reason
from stoker_operator.core.explain import Explanation, NodeWarmth
from stoker_operator.core.views import PodView

# Names in one pod's affinity: enough choice for the scheduler's other rules, small enough for etcd and for people.
MOST_NODES = 50
# Preferred terms: more than the warmest few say nothing.
MOST_PREFERRED = 10
# Seconds until a pod that no node could take is released, so that an autoscaler makes one: it looks at no held pod.
# Longer than the restart of a node's sidecar, shorter than what a person notices beside the making of a node.
SHOWN_AFTER = 60.0


@dataclass(frozen=True)
class Hold:
    """The decision that a pod stays. ``deadline``: when this must be looked at again, in seconds since the epoch.

    ``held_since``: what the annotation of that name should say; None when it may stay as it is. ``waits``: for warmth
    or room, and for nothing else.
    """

    pod: PodView
    why: Explanation
    deadline: float | None = None
    held_since: str | None = None
    waits: bool = False


@dataclass(frozen=True)
class Release:
    """The decision that a pod goes.

    ``affinity`` is the whole new affinity, None when it stays as it is; ``nodes`` the best first. ``nominated``: the
    node that the scheduler is to try before all others, empty for none.
    """

    pod: PodView
    reason: Reason
    sentence: str
    mode: SchedulingMode
    affinity: Mapping[str, Any] | None = None
    nodes: tuple[NodeWarmth, ...] = ()
    nominated: str = ""


@dataclass(frozen=True)
class WantedNodes:
    """The nodes where the Datasets of held pods are wanted (key -> node names)."""

    nodes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    # Versions beside the current one that they would mount there: key -> node -> versions.
    versions: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    silences: frozenset[float] = frozenset()  # when nodes that are waited for are given up, in seconds since the epoch


@dataclass(frozen=True)
class Outcome:
    """What a pass came to: decisions that are new, and what is true of all held pods together.

    ``left``: pods that are held no more, and were not released. ``times``: when time alone calls for another
    pass, in seconds since the epoch.
    """

    holds: tuple[Hold, ...] = ()
    releases: tuple[Release, ...] = ()
    left: tuple[PodView, ...] = ()
    wanted: WantedNodes = field(default_factory=WantedNodes)
    times: frozenset[float] = frozenset()

    def next_deadline(self, now: float) -> float | None:
        """Return seconds until a held pod's maxWait passes, or a silent node is given up; None when none is to come."""
        return min((time - now for time in self.times if time > now), default=None)

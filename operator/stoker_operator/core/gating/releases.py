"""The decisions of gating, and the release of a pod: its nodes, required or preferred, and the reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import SchedulingMode
from stoker_api.names import Reason
from stoker_operator.core.fitting.affinity import prefer_nodes, require_nodes
from stoker_operator.core.fitting.node_bits import members, nth, rank
from stoker_operator.core.fitting.pod_demand import PodDemand
from stoker_operator.core.gating import explain
from stoker_operator.core.gating.explain import Explanation, NodeWarmth
from stoker_operator.core.gating.gate_index import GateIndex
from stoker_operator.core.gating.pod_class import PodClass
from stoker_operator.core.views.cluster import ClusterView, PodView
from stoker_operator.core.views.placement_rules import foreign_claims

# Names in one pod's affinity: enough choice for the scheduler's other rules, small enough for etcd and for people.
MOST_NODES = 50
# Preferred terms: terms after the warmest few add no information.
MOST_PREFERRED = 10
# Seconds until a pod that no node can take is released, so that an autoscaler adds a node. Autoscalers ignore held
# pods. Longer than a restart of a node's sidecar, and short compared with the creation of a node.
SHOWN_AFTER = 60.0


@dataclass(frozen=True)
class Hold:
    """The decision to hold a pod. ``deadline``: time of the next decision, in seconds since the epoch.

    ``held_since``: new value of that annotation, None if unchanged. ``waits``: it waits only for warmth or room.
    """

    pod: PodView
    why: Explanation
    deadline: float | None = None
    held_since: str | None = None
    waits: bool = False


@dataclass(frozen=True)
class Release:
    """The decision to release a pod.

    ``affinity``: the complete new affinity, None if unchanged. ``nodes``: best first. ``nominated``: the node that the
    scheduler tries first, or "".
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
    """The nodes that should have the Datasets of held pods (key -> node names)."""

    nodes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    # Older versions that the pods would mount there: key -> node -> versions.
    versions: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    silences: frozenset[float] = frozenset()  # times at which silent nodes are given up, in seconds since the epoch


@dataclass(frozen=True)
class Outcome:
    """The result of a pass: new decisions, and facts about all held pods.

    ``left``: pods that are no longer held and were not released. ``times``: times at which time alone requires a pass,
    in seconds since the epoch.
    """

    holds: tuple[Hold, ...] = ()
    releases: tuple[Release, ...] = ()
    left: tuple[PodView, ...] = ()
    wanted: WantedNodes = field(default_factory=WantedNodes)
    times: frozenset[float] = frozenset()

    def next_deadline(self, now: float) -> float | None:
        """Return the seconds until a held pod's maxWait passes or a silent node is given up.

        None: neither will happen.
        """
        return min((time - now for time in self.times if time > now), default=None)


class Releases:
    """Builds releases from an index. ``view`` has the index's Datasets."""

    def __init__(self, index: GateIndex, view: ClusterView) -> None:
        self._index = index
        self._view = view

    def warm(self, pod: PodView, demand: PodDemand, place: PodClass, booked: str) -> Release:
        """Release a pod to warm nodes. It is booked on one of them."""
        window = self._window(place.options, booked)
        way_out = "" if demand.mode is SchedulingMode.REQUIRE else self._doubt(pod, place, booked, window)
        names = [booked, *(name for at in members(window) if (name := self._index.numbers.names[at]) != booked)]
        chosen = names[:MOST_PREFERRED] if way_out else names
        nodes = [self._index.nodes[name] for name in chosen]
        warmths = tuple(place.data.of(name) for name in chosen)
        affinity = (
            prefer_nodes(pod.affinity, ((node, 1.0) for node in nodes))
            if way_out
            else require_nodes(pod.affinity, nodes)
        )
        sentence = explain.released(demand, warmths, way_out)
        # From 100 nodes on, the scheduler scores only a sample of preferred nodes. It tries a nominated node first.
        nominated = booked if way_out else ""
        return Release(pod, Reason.RELEASED, sentence, demand.mode, affinity, warmths, nominated)

    def cold(self, pod: PodView, demand: PodDemand, place: PodClass, missing: str = "") -> Release:
        """Release a pod without enough warm data or room. Book it where it is likely to land."""
        # Nodes with room first: a warm node without room only makes the pod wait.
        room = place.nodes.feasible & place.room.free
        best = (*self._warmest(place, room), *self._warmest(place, place.nodes.feasible & ~place.room.free))
        best = best[:MOST_PREFERRED]
        affinity = prefer_nodes(pod.affinity, ((self._index.nodes[one.node], one.warmth.share) for one in best))
        booked = next((one.node for one in best if self._index.capacity.fits(pod.requests, one.node)), None)
        if booked is not None:
            self._index.take(pod.requests, booked)
        sentence = explain.max_wait_passed(demand, best, missing)
        return Release(pod, Reason.MAX_WAIT_PASSED, sentence, demand.mode, affinity if best else None, best)

    def _warmest(self, place: PodClass, among: int) -> tuple[NodeWarmth, ...]:
        """Return the warmest nodes of a set that hold some of the data, at most MOST_PREFERRED.

        Among equals the first on the ring comes first.
        """
        warm = self._index.numbers.from_start(place.data.start, place.data.warm & among)
        shares = [(1.0, at) for at in islice(warm, MOST_PREFERRED)]
        for share, at in place.data.partial(among, self._index.numbers):
            if len(shares) >= MOST_PREFERRED:
                break
            shares.append((share, at))
        names = [self._index.numbers.names[at] for _, at in shares]
        return tuple(place.data.of(name) for name in names)

    def _window(self, options: int, booked: str) -> int:
        """Take at most MOST_NODES of ``options``. Pods booked within one window get the same nodes."""
        at = self._index.numbers.find(booked)
        lowest = nth(options, rank(options, at or 0) // MOST_NODES * MOST_NODES)
        return sum(1 << number for number in islice(members(options >> lowest), MOST_NODES)) << lowest

    def _doubt(self, pod: PodView, place: PodClass, booked: str, chosen: int) -> str:
        """Return why the scheduler may reject the chosen nodes, or ""."""
        rules = [*pod.unweighed]
        rules += ["its other volumes"] if foreign_claims(pod.claims, pod.namespace, self._view.datasets) else []
        if rules:
            return f"{' and '.join(rules)} may need other nodes"
        own = self._index.numbers.find(booked) or 0
        if not chosen & place.room.free & ~(1 << own):
            return "no other warm node has room to spare"
        return ""


def never_held(pod: PodView, demand: PodDemand) -> Release:
    """Release a pod unchanged."""
    return Release(pod, Reason.RELEASED, f"scheduling of {demand.names} is None, so the pod is not held", demand.mode)


def is_freed(pod: PodView) -> bool:
    """Return True if the pod's own annotation says None: `stoker release`, or its TrainingJob, let it go."""
    return pod.scheduling.strip() == SchedulingMode.NONE.value and not pod.expected


def freed_pod(pod: PodView) -> Release:
    """Release a pod unchanged, regardless of its Datasets, its gang and other gates."""
    sentence = f"{names.ANNOTATION_SCHEDULING} is None: released at once"
    return Release(pod, Reason.RELEASED, sentence, SchedulingMode.NONE)

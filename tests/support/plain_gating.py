"""Gating as one full pass over a snapshot: the reference for the product's incremental decisions."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from stoker_api.datasets.dataset import SchedulingMode
from stoker_api.names import Reason
from stoker_api.times import format_time
from stoker_operator.core.fitting.affinity import prefer_nodes, require_nodes
from stoker_operator.core.fitting.feasible_nodes import silent_until
from stoker_operator.core.fitting.node_bits import distance, start_of
from stoker_operator.core.fitting.pod_demand import PodDemand, Unmet, read_demand
from stoker_operator.core.fitting.warmth import Warmth, WarmthIndex
from stoker_operator.core.gating import explain
from stoker_operator.core.gating.explain import Hindrance, NodeWarmth, futile
from stoker_operator.core.gating.releases import (
    MOST_NODES,
    MOST_PREFERRED,
    SHOWN_AFTER,
    Hold,
    Release,
    WantedNodes,
    freed_pod,
    is_freed,
)
from stoker_operator.core.placement.node_rules import may_warm
from stoker_operator.core.views.cluster import ClusterView, PodView
from stoker_operator.core.views.failed_objects import FailedObjects
from stoker_operator.core.views.placement_rules import foreign_claims
from tests.support.plain_gating_parts import PlainCapacity, PlainFeasibleNodes, PlainGroup, groups_of

_Alike = tuple[frozenset[str], str]  # candidate nodes and names of Datasets
_Sized = tuple[_Alike, str]  # and the pod's resource requests


@dataclass(frozen=True)
class PlainOutcome:
    """Decisions for all gated pods, and the nodes where their Datasets are wanted."""

    holds: tuple[Hold, ...] = ()
    releases: tuple[Release, ...] = ()
    wanted: WantedNodes = field(default_factory=WantedNodes)

    def next_deadline(self, now: float) -> float | None:
        """Return the seconds until a gated pod's maxWait ends, or a silent node is given up. None without either."""
        times = [*(hold.deadline for hold in self.holds if hold.deadline is not None), *self.wanted.silences]
        return min((time - now for time in times if time > now), default=None)


def decide_plainly(
    view: ClusterView, now: float, bookings: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> PlainOutcome:
    """Decide on all gated pods, oldest first. ``now`` is seconds since the epoch, ``bookings`` as in FreeCapacity.

    A pod is released to warm nodes if one of them has room for it beyond the needs of already released pods. They are
    required if the pod demands it, or if warm room remains. Otherwise they are preferred, so that constraints not
    considered here do not trap the pod. Gangs are released completely or not at all.
    """
    groups = groups_of(view.pods.values())
    return _Pass(view, now, bookings).run(groups) if groups else PlainOutcome()


class _Pass:
    """The bookings of one pass, and cached results for similar pods."""

    def __init__(self, view: ClusterView, now: float, bookings: Mapping[str, Sequence[str]]) -> None:
        self._view = view
        self._now = now
        self._index = WarmthIndex(view.node_caches)
        self._candidates = PlainFeasibleNodes(view.nodes)
        self._silent = PlainFeasibleNodes(view.nodes, silent_at=now)
        self._silences: set[float] = set()
        self._free = PlainCapacity(view.nodes, view.pods.values(), bookings)
        self._unreadable: set[str] = set()
        self._warmth: dict[tuple[str, str], Warmth] = {}
        self._readable_memo: dict[_Alike, list[str]] = {}
        self._ranked_memo: dict[_Alike, list[str]] = {}
        self._options_memo: dict[_Sized, list[str]] = {}
        self._possible_memo: dict[_Sized, bool] = {}

    def run(self, groups: Iterable[PlainGroup]) -> PlainOutcome:
        decisions = [one for group in groups for one in self._decided(group)]
        holds = tuple(one for one in decisions if isinstance(one, Hold))
        releases = tuple(one for one in decisions if isinstance(one, Release))
        # Pods that may be released first get nodes first: gates of other controllers may stay for hours.
        asking = sorted((one.pod for one in holds), key=lambda pod: bool(pod.other_gates))
        wanted, versions = self._wanted(pod for pod in asking if pod.key not in self._unreadable)
        return PlainOutcome(holds, releases, WantedNodes(wanted, versions, frozenset(self._silences)))

    def _decided(self, group: PlainGroup) -> Sequence[Hold | Release]:
        """Return the decisions on a group. On an error, it stays gated and the pass continues with the next group."""
        try:
            return self._group(group)
        except Exception as error:  # noqa: BLE001 -- the boundary of a group
            self._unreadable.update(pod.key for pod in group.pods)
            sentence = f"internal error, please report it: {error!r}"
            return [Hold(pod, explain.unmet(Reason.INTERNAL_ERROR, sentence)) for pod in group.pods]

    def _group(self, group: PlainGroup) -> Sequence[Hold | Release]:
        freed = [freed_pod(pod) for pod in group.pods if is_freed(pod)]
        rest = replace(group, pods=tuple(pod for pod in group.pods if not is_freed(pod)))
        return [*freed, *(self._waiting(rest) if rest.pods else ())]

    def _waiting(self, group: PlainGroup) -> Sequence[Hold | Release]:
        demands = {pod.key: read_demand(pod, self._view, self._now) for pod in group.pods}
        unmet = next((demand for demand in demands.values() if isinstance(demand, Unmet)), None)
        if unmet is not None:
            return [Hold(pod, explain.unmet(unmet.reason, unmet.sentence)) for pod in group.pods]
        if group.other_gates:
            why = explain.other_gates(group.other_gates)
            return [Hold(pod, why, held_since=self._mark(pod)) for pod in group.pods]
        pairs = [(pod, demand) for pod in group.pods if isinstance(demand := demands[pod.key], PodDemand)]
        if group.present < group.size:
            missing = f"all of the gang existed ({group.present} of {group.size})"
            return self._overdue(pairs, missing) or [self._incomplete(group, *pair) for pair in pairs]
        decided = self._to_warm_nodes(pairs) or self._unwarmed(pairs) or self._overdue(pairs) or self._shown(pairs)
        return decided or [self._hold(*pair) for pair in pairs]

    def _mark(self, pod: PodView) -> str | None:
        """Return the write of the time since when only Stoker gates a pod. Nothing for a pod without other gates."""
        if pod.other_gates:
            return "" if pod.held_since is None else None
        return format_time(self._now) if pod.held_since == 0.0 else None

    def _incomplete(self, group: PlainGroup, pod: PodView, demand: PodDemand) -> Hold:
        why = explain.gang(group.size, demand, self._now)
        return Hold(pod, why, demand.deadline, self._mark(pod))

    def _to_warm_nodes(self, pairs: Sequence[tuple[PodView, PodDemand]]) -> Sequence[Release]:
        """Return all of them, or () with the bookings unchanged."""
        booked: dict[str, str] = {}
        for pod, demand in pairs:
            if demand.mode is SchedulingMode.NONE:
                continue
            node = self._free.take(pod, self._options(pod, demand))
            if node is None:
                for taken, _ in pairs:
                    if taken.key in booked:
                        self._free.give_back(taken, booked[taken.key])
                return ()
            booked[pod.key] = node
        # After all of them are booked: spare room is the room that no pod of the gang takes.
        return [
            self._release(pod, demand, booked[pod.key]) if pod.key in booked else _never_held(pod, demand)
            for pod, demand in pairs
        ]

    def _options(self, pod: PodView, demand: PodDemand) -> list[str]:
        """Find warm nodes where the pod fits next to the pods bound there.

        Released pods without a node do not count here, only in the booking. If two pods may each go to either of two
        nodes, both must get both. Otherwise the scheduler could put one where only the other may go.
        """
        key = (self._alike(pod, demand), explain.describe(pod.requests))
        if key not in self._options_memo:
            warm = (name for name in self._readable(pod, demand) if self._together(demand, name).warm)
            self._options_memo[key] = [name for name in warm if self._free.fits_unbooked(pod, name)]
        return self._options_memo[key]

    def _readable(self, pod: PodView, demand: PodDemand) -> list[str]:
        """Find candidate nodes that hold some of the data, or have it in their plan, by name."""
        key = self._alike(pod, demand)
        if key not in self._readable_memo:
            state = set[str]().union(*(self._index.nodes(dataset) for dataset in demand.datasets))
            self._readable_memo[key] = sorted(state & key[0])
        return self._readable_memo[key]

    def _alike(self, pod: PodView, demand: PodDemand) -> _Alike:
        return self._candidates.of(pod), demand.names

    def _together(self, demand: PodDemand, node: str) -> Warmth:
        key = (demand.names, node)
        if key not in self._warmth:
            self._warmth[key] = self._index.together(demand.datasets, node, demand.versions)
        return self._warmth[key]

    def _release(self, pod: PodView, demand: PodDemand, booked: str) -> Release:
        chosen = _window(self._options(pod, demand), booked)
        way_out = "" if demand.mode is SchedulingMode.REQUIRE else self._doubt(pod, booked, chosen)
        chosen = chosen[:MOST_PREFERRED] if way_out else chosen
        nodes = [self._view.nodes[name] for name in chosen]
        warmths = tuple(self._node_warmth(demand, name) for name in chosen)
        affinity = (
            prefer_nodes(pod.affinity, ((node, 1.0) for node in nodes))
            if way_out
            else require_nodes(pod.affinity, nodes)
        )
        sentence = explain.released(demand, warmths, way_out)
        return Release(pod, Reason.RELEASED, sentence, demand.mode, affinity, warmths, booked if way_out else "")

    def _doubt(self, pod: PodView, booked: str, chosen: Sequence[str]) -> str:
        """Return why the scheduler may reject the chosen nodes. Empty without a reason."""
        rules = [*pod.unweighed]
        rules += ["its other volumes"] if foreign_claims(pod.claims, pod.namespace, self._view.datasets) else []
        if rules:
            return f"{' and '.join(rules)} may need other nodes"
        if not any(self._free.fits(pod, name) for name in chosen if name != booked):
            return "no other warm node has room to spare"
        return ""

    def _unwarmed(self, pairs: Sequence[tuple[PodView, PodDemand]]) -> Sequence[Release]:
        """Return all of them if nothing will warm the data of one."""
        causes = next((found for pair in pairs if (found := self._futile(*pair))), ())
        if not causes or not _may_go_cold(pairs):
            return ()
        releases = (self._release_cold(pod, demand) for pod, demand in pairs)
        return [
            replace(one, reason=causes[0].reason, sentence=explain.unwarmed(demand, causes))
            for one, (_, demand) in zip(releases, pairs, strict=True)
        ]

    def _futile(self, pod: PodView, demand: PodDemand) -> Sequence[Hindrance]:
        return () if self._warm_somewhere(pod, demand) else futile(demand)

    def _warm_somewhere(self, pod: PodView, demand: PodDemand) -> bool:
        return any(self._together(demand, name).warm for name in self._readable(pod, demand))

    def _overdue(self, pairs: Sequence[tuple[PodView, PodDemand]], missing: str = "") -> Sequence[Release]:
        """Return all of them if one has waited for its maxWait: none is gated for longer."""
        if not _may_go_cold(pairs) or not any(self._now >= demand.deadline for _, demand in pairs):
            return ()
        return [self._release_cold(pod, demand, missing) for pod, demand in pairs]

    def _shown(self, pairs: Sequence[tuple[PodView, PodDemand]]) -> Sequence[Release]:
        """Return all of them if one needs a new node, because an autoscaler ignores gated pods."""
        late = [pod for pod, demand in pairs if self._now >= demand.since + SHOWN_AFTER]
        if not _may_go_cold(pairs) or all(self._possible(pod) for pod in late):
            return ()
        releases = (self._release_cold(pod, demand) for pod, demand in pairs)
        return [
            replace(one, reason=Reason.RELEASED, sentence=explain.shown_to_autoscalers(demand, one.pod.requests))
            for one, (_, demand) in zip(releases, pairs, strict=True)
        ]

    def _possible(self, pod: PodView) -> bool:
        """Return True if some node could take the pod if it were empty."""
        key = ((self._candidates.of(pod), ""), explain.describe(pod.requests))
        if key not in self._possible_memo:
            nodes = (self._view.nodes[name] for name in key[0][0])
            self._possible_memo[key] = any(node.allocatable.covers(pod.requests) for node in nodes)
        return self._possible_memo[key]

    def _release_cold(self, pod: PodView, demand: PodDemand, missing: str = "") -> Release:
        holders = [self._node_warmth(demand, name) for name in self._readable(pod, demand)]
        start = start_of(demand.datasets)
        known = [one for one in holders if one.warmth.share > 0]
        known.sort(key=lambda one: (-one.warmth.share, distance(start, one.node), one.node))
        # Nodes with room first: the pod would only wait for a warm but full node.
        known.sort(key=lambda one: not self._free.fits(pod, one.node))
        best = tuple(known[:MOST_PREFERRED])
        affinity = prefer_nodes(pod.affinity, ((self._view.nodes[one.node], one.warmth.share) for one in best))
        self._free.take(pod, [one.node for one in best])
        sentence = explain.max_wait_passed(demand, best, missing)
        return Release(pod, Reason.MAX_WAIT_PASSED, sentence, demand.mode, affinity if best else None, best)

    def _hold(self, pod: PodView, demand: PodDemand) -> Hold:
        if not self._possible(pod):
            shown_at = demand.since + SHOWN_AFTER
            why = explain.no_node(demand, pod.requests, shown_at)
            return Hold(pod, why, min(demand.deadline, shown_at), self._mark(pod), waits=True)
        why = explain.waiting(demand, self._warm_somewhere(pod, demand), pod.requests, self._now)
        return Hold(pod, why, demand.deadline, self._mark(pod), waits=True)

    def _node_warmth(self, demand: PodDemand, node: str) -> NodeWarmth:
        return NodeWarmth(node, self._together(demand, node))

    def _wanted(
        self, held: Iterable[PodView]
    ) -> tuple[Mapping[str, frozenset[str]], Mapping[str, Mapping[str, frozenset[str]]]]:
        """Compute where the gated pods could run next.

        Room is booked, so that the pods want as many nodes as they need.
        """
        wanted: dict[str, set[str]] = defaultdict(set)
        versions: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
        spoiled = FailedObjects()
        for pod in held:
            for key, node, older in spoiled.attempt(pod.key, partial(self._next_stop, pod)) or ():
                wanted[key].add(node)
                if older:
                    versions[key][node] = versions[key].get(node, frozenset()) | {older}
        return {key: frozenset(nodes) for key, nodes in wanted.items()}, dict(versions)

    def _next_stop(self, pod: PodView) -> list[tuple[str, str, str]]:
        """Return the keys of the pod's Datasets, the node where each should be, and the version if it is an old one."""
        demand = read_demand(pod, self._view, self._now)
        node = self._best_node(pod, demand) if isinstance(demand, PodDemand) else None
        if node is None or not isinstance(demand, PodDemand):
            return []
        return [(dataset.key, node, demand.versions.get(dataset.key, "")) for dataset in demand.datasets]

    def _best_node(self, pod: PodView, demand: PodDemand) -> str | None:
        ranked = self._ranked(pod, demand)
        if waited_for := self._free.take(pod, self._silent_holders(pod, demand, ranked)):
            return waited_for
        # No room anywhere: warm up where the pod may go when there is room.
        return self._free.take(pod, ranked) or next(iter(ranked), None)

    def _silent_holders(self, pod: PodView, demand: PodDemand, ranked: Sequence[str]) -> list[str]:
        """Find recently silent nodes with more data than any other node, so that the bucket is not read twice.

        The warmest come first.
        """
        best = max((self._together(demand, name).share for name in ranked), default=0.0)
        shares = {
            name: self._together(demand, name).share for name in self._silent.of(pod) if self._may_hold(demand, name)
        }
        found = sorted((name for name in shares if shares[name] > best), key=lambda name: (-shares[name], name))
        self._silences.update(until for name in found if (until := silent_until(self._view.nodes[name])) is not None)
        return found

    def _ranked(self, pod: PodView, demand: PodDemand) -> list[str]:
        """Rank the feasible nodes that all the Datasets may use.

        The warmest come first, then planned ones, then those from the choice's own place on the ring.
        """
        key = self._alike(pod, demand)
        if key not in self._ranked_memo:
            warmth = {name: self._together(demand, name) for name in key[0] if self._may_hold(demand, name)}
            self._ranked_memo[key] = sorted(warmth, key=partial(_rank, start_of(demand.datasets), warmth))
        return self._ranked_memo[key]

    def _may_hold(self, demand: PodDemand, node: str) -> bool:
        view = self._view.nodes[node]
        return all(may_warm(dataset, view) for dataset in demand.datasets)


def _rank(start: int, warmth: Mapping[str, Warmth], name: str) -> tuple[float, bool, int, str]:
    return -warmth[name].share, not warmth[name].planned, distance(start, name), name


def _may_go_cold(pairs: Sequence[tuple[PodView, PodDemand]]) -> bool:
    return all(demand.mode is not SchedulingMode.REQUIRE for _, demand in pairs)


def _never_held(pod: PodView, demand: PodDemand) -> Release:
    return Release(pod, Reason.RELEASED, f"scheduling of {demand.names} is None, so the pod is not held", demand.mode)


def _window(options: Sequence[str], booked: str) -> list[str]:
    """Take at most MOST_NODES of ``options`` with ``booked`` first.

    Pods booked within one window get the same nodes.
    """
    start = options.index(booked) // MOST_NODES * MOST_NODES
    return [booked, *(name for name in options[start : start + MOST_NODES] if name != booked)]

"""Which held pods may go, and where to; why the others wait; and which nodes should warm up for those."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker_api.dataset import SchedulingMode
from stoker_api.names import Reason
from stoker_operator.core import explain
from stoker_operator.core.affinity import prefer_nodes, require_nodes, selects
from stoker_operator.core.capacity import FreeCapacity
from stoker_operator.core.explain import Explanation, Reading, Standing
from stoker_operator.core.feasible_nodes import Candidates
from stoker_operator.core.gangs import Group, groups_of
from stoker_operator.core.pod_demand import Unmet, Wish, read_wish
from stoker_operator.core.views import ClusterView, PodView
from stoker_operator.core.warmth import Warmth, WarmthIndex

# Names in one pod's affinity: enough choice for the scheduler's other rules, small enough for etcd and for people.
MOST_NODES = 50
# Preferred terms after maxWait: more than the warmest few say nothing.
MOST_PREFERRED = 10

_Alike = tuple[frozenset[str], str]  # candidate nodes and names of Datasets
_Sized = tuple[_Alike, str]  # and what the pod asks of a node


@dataclass(frozen=True)
class Hold:
    """The pod stays. ``deadline``: when this must be looked at again, in seconds since the epoch."""

    pod: PodView
    why: Explanation
    deadline: float | None = None


@dataclass(frozen=True)
class Release:
    """The pod goes. ``affinity`` is the whole new affinity, None when it stays as it is; ``nodes`` the best first."""

    pod: PodView
    reason: Reason
    sentence: str
    mode: SchedulingMode
    affinity: Mapping[str, Any] | None = None
    nodes: tuple[Reading, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """Decisions for all held pods, and the nodes where their Datasets are wanted (key -> node names)."""

    holds: tuple[Hold, ...] = ()
    releases: tuple[Release, ...] = ()
    wanted: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def next_deadline(self, now: float) -> float | None:
        """Seconds until a held pod's maxWait passes; None when there is none to come."""
        coming = [hold.deadline - now for hold in self.holds if hold.deadline is not None and hold.deadline > now]
        return min(coming, default=None)


def decide(view: ClusterView, now: float) -> Outcome:
    """One pass over all held pods, oldest first. ``now`` in seconds since the epoch.

    A pod is released to nodes by required affinity only when one of them is warm and has room for it, after what
    already released pods will take; gangs go whole or not at all.
    """
    groups = groups_of(view.pods.values())
    return _Pass(view, now).run(groups) if groups else Outcome()


class _Pass:
    """The books of one pass, and what was worked out once for pods that are alike."""

    def __init__(self, view: ClusterView, now: float) -> None:
        self._view = view
        self._now = now
        self._index = WarmthIndex(view.node_caches)
        self._candidates = Candidates(view.nodes)
        self._free = FreeCapacity(view.nodes, view.pods.values())
        self._unreadable: set[str] = set()
        self._warmth: dict[tuple[str, str], Warmth] = {}
        self._readable_memo: dict[_Alike, list[str]] = {}
        self._ranked_memo: dict[_Alike, list[str]] = {}
        self._standing_memo: dict[_Alike, Standing] = {}
        self._options_memo: dict[_Sized, list[str]] = {}

    def run(self, groups: Iterable[Group]) -> Outcome:
        decisions = [one for group in groups for one in self._decided(group)]
        holds = tuple(one for one in decisions if isinstance(one, Hold))
        releases = tuple(one for one in decisions if isinstance(one, Release))
        return Outcome(holds, releases, self._wanted(one.pod for one in holds if one.pod.key not in self._unreadable))

    def _decided(self, group: Group) -> Sequence[Hold | Release]:
        """The decisions on a group, which stays held when they cannot be made: the others' turn must come."""
        try:
            return self._group(group)
        except Exception as error:  # noqa: BLE001 -- the boundary of a group
            self._unreadable.update(pod.key for pod in group.pods)
            sentence = f"what it waits for cannot be worked out, please report this: {error!r}"
            return [Hold(pod, explain.unmet(Reason.INTERNAL_ERROR, sentence)) for pod in group.pods]

    def _group(self, group: Group) -> Sequence[Hold | Release]:
        if group.present < group.size:
            return [Hold(pod, explain.gang(group.present, group.size)) for pod in group.pods]
        wishes = {pod.key: read_wish(pod, self._view.datasets) for pod in group.pods}
        unmet = next((wish for wish in wishes.values() if isinstance(wish, Unmet)), None)
        if unmet is not None:
            return [Hold(pod, explain.unmet(unmet.reason, unmet.sentence)) for pod in group.pods]
        pairs = [(pod, wish) for pod in group.pods if isinstance(wish := wishes[pod.key], Wish)]
        return self._to_warm_nodes(pairs) or self._overdue(pairs) or [self._hold(*pair) for pair in pairs]

    def _to_warm_nodes(self, pairs: Sequence[tuple[PodView, Wish]]) -> Sequence[Release]:
        """All of them, or () with the books as they were."""
        booked: list[tuple[PodView, str]] = []
        releases = []
        for pod, wish in pairs:
            if wish.mode is SchedulingMode.NONE:
                releases.append(_never_held(pod, wish))
                continue
            options = self._options(pod, wish)
            node = self._free.take(pod, options)
            if node is None:
                for taken in booked:
                    self._free.give_back(*taken)
                return ()
            booked.append((pod, node))
            releases.append(self._release(pod, wish, node, options))
        return releases

    def _options(self, pod: PodView, wish: Wish) -> list[str]:
        """Warm nodes where the pod fits beside what is bound there.

        Pods on their way are not counted here, only in the booking: two pods that may each go to either of two nodes
        must both be given both, or the scheduler could put one where only the other may go.
        """
        key = (self._alike(pod, wish), explain.describe(pod.requests))
        if key not in self._options_memo:
            warm = (name for name in self._readable(pod, wish) if self._together(wish, name).warm)
            self._options_memo[key] = [name for name in warm if self._free.fits_unbooked(pod, name)]
        return self._options_memo[key]

    def _readable(self, pod: PodView, wish: Wish) -> list[str]:
        """Candidate nodes that hold some of the data, or are asked to, by name."""
        key = self._alike(pod, wish)
        if key not in self._readable_memo:
            holding = set[str]().union(*(self._index.nodes(dataset) for dataset in wish.datasets))
            self._readable_memo[key] = sorted(holding & key[0])
        return self._readable_memo[key]

    def _alike(self, pod: PodView, wish: Wish) -> _Alike:
        return self._candidates.of(pod), wish.names

    def _together(self, wish: Wish, node: str) -> Warmth:
        key = (wish.names, node)
        if key not in self._warmth:
            self._warmth[key] = self._index.together(wish.datasets, node)
        return self._warmth[key]

    def _release(self, pod: PodView, wish: Wish, booked: str, options: Sequence[str]) -> Release:
        chosen = _window(options, booked)
        readings = tuple(self._reading(wish, name) for name in chosen)
        affinity = require_nodes(pod.affinity, (self._view.nodes[name] for name in chosen))
        return Release(pod, Reason.RELEASED, explain.released(wish, readings), wish.mode, affinity, readings)

    def _overdue(self, pairs: Sequence[tuple[PodView, Wish]]) -> Sequence[Release]:
        """All of them, when each may go cold by now."""
        if not all(wish.mode is not SchedulingMode.REQUIRE and self._now >= wish.deadline for _, wish in pairs):
            return ()
        return [self._release_cold(pod, wish) for pod, wish in pairs]

    def _release_cold(self, pod: PodView, wish: Wish) -> Release:
        standing = self._standing(pod, wish)
        known = [one for one in (*standing.warm, *standing.cold) if one.warmth.share > 0]
        # Nodes with room first: what is warm and full would only keep the pod waiting.
        known.sort(key=lambda one: not self._free.fits(pod, one.node))
        best = tuple(known[:MOST_PREFERRED])
        affinity = prefer_nodes(pod.affinity, ((self._view.nodes[one.node], one.warmth.share) for one in best))
        self._free.take(pod, [one.node for one in best])
        sentence = explain.max_wait_passed(wish, best)
        return Release(pod, Reason.MAX_WAIT_PASSED, sentence, wish.mode, affinity if best else None, best)

    def _hold(self, pod: PodView, wish: Wish) -> Hold:
        if not self._candidates.of(pod):
            return Hold(pod, explain.no_candidates(wish), wish.deadline)
        why = explain.waiting(wish, self._standing(pod, wish), pod.requests, self._now)
        return Hold(pod, why, wish.deadline)

    def _standing(self, pod: PodView, wish: Wish) -> Standing:
        key = self._alike(pod, wish)
        if key not in self._standing_memo:
            names = self._readable(pod, wish)
            self._standing_memo[key] = Standing.of([self._reading(wish, name) for name in names])
        return self._standing_memo[key]

    def _reading(self, wish: Wish, node: str) -> Reading:
        return Reading(node, self._together(wish, node))

    def _wanted(self, held: Iterable[PodView]) -> Mapping[str, frozenset[str]]:
        """Where the held pods could run next: room is booked, so that pods ask for as many nodes as they need."""
        wanted: dict[str, set[str]] = defaultdict(set)
        for pod in held:
            wish = read_wish(pod, self._view.datasets)
            node = self._best_node(pod, wish) if isinstance(wish, Wish) else None
            if node is not None and isinstance(wish, Wish):
                for dataset in wish.datasets:
                    wanted[dataset.key].add(node)
        return {key: frozenset(nodes) for key, nodes in wanted.items()}

    def _best_node(self, pod: PodView, wish: Wish) -> str | None:
        ranked = self._ranked(pod, wish)
        # No room anywhere: warm up where the pod may go once there is.
        return self._free.take(pod, ranked) or next(iter(ranked), None)

    def _ranked(self, pod: PodView, wish: Wish) -> list[str]:
        """Candidates that all the Datasets may be on: the warmest first, then what is planned, then by name."""
        key = self._alike(pod, wish)
        if key not in self._ranked_memo:
            warmth = {name: self._together(wish, name) for name in key[0] if self._may_hold(wish, name)}
            order = sorted(warmth, key=lambda name: (-warmth[name].share, not warmth[name].planned, name))
            self._ranked_memo[key] = order
        return self._ranked_memo[key]

    def _may_hold(self, wish: Wish, node: str) -> bool:
        view = self._view.nodes[node]
        return all(selects(dataset.spec.cache.node_selector, view) for dataset in wish.datasets)


def _never_held(pod: PodView, wish: Wish) -> Release:
    return Release(pod, Reason.RELEASED, f"scheduling of {wish.names} is None: it is not held", wish.mode)


def _window(options: Sequence[str], booked: str) -> list[str]:
    """At most MOST_NODES of ``options`` with ``booked`` first; pods booked within one window get the same nodes."""
    start = options.index(booked) // MOST_NODES * MOST_NODES
    return [booked, *(name for name in options[start : start + MOST_NODES] if name != booked)]

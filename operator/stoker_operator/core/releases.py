"""How a pod is let go: to which nodes, required or preferred, and the sentence that says why."""

from itertools import islice

from stoker_api.dataset import SchedulingMode
from stoker_api.names import Reason
from stoker_operator.core import explain
from stoker_operator.core.affinity import prefer_nodes, require_nodes
from stoker_operator.core.explain import NodeWarmth
from stoker_operator.core.gate_index import GateIndex
from stoker_operator.core.node_bits import members, nth, rank
from stoker_operator.core.placement_rules import foreign_claims
from stoker_operator.core.places import Place
from stoker_operator.core.pod_demand import PodDemand
from stoker_operator.core.release_decisions import MOST_NODES, MOST_PREFERRED, Release
from stoker_operator.core.views import ClusterView, PodView


class Releases:
    """Makes releases by what an index knows; ``view`` has its Datasets."""

    def __init__(self, index: GateIndex, view: ClusterView) -> None:
        self._index = index
        self._view = view

    def warm(self, pod: PodView, demand: PodDemand, place: Place, booked: str) -> Release:
        """Let a pod go to warm nodes, of which it is booked on one."""
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
        # Of what is preferred the scheduler scores a sample, from 100 nodes on; what is nominated it tries first.
        nominated = booked if way_out else ""
        return Release(pod, Reason.RELEASED, sentence, demand.mode, affinity, warmths, nominated)

    def cold(self, pod: PodView, demand: PodDemand, place: Place, missing: str = "") -> Release:
        """Let a pod go although nothing is warm enough, or has room; it is booked where it is likely to land."""
        # Nodes with room first: what is warm and full would only keep the pod waiting.
        room = place.nodes.feasible & place.room.free
        best = (*self._warmest(place, room), *self._warmest(place, place.nodes.feasible & ~place.room.free))
        best = best[:MOST_PREFERRED]
        affinity = prefer_nodes(pod.affinity, ((self._index.nodes[one.node], one.warmth.share) for one in best))
        booked = next((one.node for one in best if self._index.capacity.fits(pod.requests, one.node)), None)
        if booked is not None:
            self._index.take(pod.requests, booked)
        sentence = explain.max_wait_passed(demand, best, missing)
        return Release(pod, Reason.MAX_WAIT_PASSED, sentence, demand.mode, affinity if best else None, best)

    def _warmest(self, place: Place, among: int) -> tuple[NodeWarmth, ...]:
        """Return the warmest nodes of a set, of those that hold any of the data, as many as are preferred at most.

        Of equals the first on the ring come first.
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
        """Take at most MOST_NODES of ``options``; pods booked within one window get the same nodes."""
        at = self._index.numbers.find(booked)
        lowest = nth(options, rank(options, at or 0) // MOST_NODES * MOST_NODES)
        return sum(1 << number for number in islice(members(options >> lowest), MOST_NODES)) << lowest

    def _doubt(self, pod: PodView, place: Place, booked: str, chosen: int) -> str:
        """Say why the scheduler may find that the chosen nodes do not do; empty when there is no reason to think so."""
        rules = [*pod.unweighed]
        rules += ["its other volumes"] if foreign_claims(pod.claims, pod.namespace, self._view.datasets) else []
        if rules:
            return f"{' and '.join(rules)} may call for others"
        own = self._index.numbers.find(booked) or 0
        if not chosen & place.room.free & ~(1 << own):
            return "no other warm node has room to spare"
        return ""


def never_held(pod: PodView, demand: PodDemand) -> Release:
    """Let a pod go as it is."""
    return Release(pod, Reason.RELEASED, f"scheduling of {demand.names} is None: it is not held", demand.mode)

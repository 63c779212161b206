"""What tests of releases look at: times, and what became of the one pod that is held."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from stoker_operator.core.gating import Gating
from stoker_operator.core.release_decisions import Hold, Outcome, Release
from stoker_operator.core.views import ClusterView

NOW = 1030.0
SEEN = 1060.0  # when a pod that no node could take is let go, for autoscalers to see
LATE = 1000.0 + 601
REQUIRE = {"mode": "Require", "maxWait": "10m"}


def filled(view: ClusterView, now: float = NOW) -> Gating:
    """Return a gating that knows what is in ``view``."""
    gating = Gating()
    for key, dataset in view.datasets.items():
        gating.put_dataset(key, dataset)
    for key, invalid in view.invalid_datasets.items():
        gating.put_dataset(key, invalid)
    for name, cache in view.node_caches.items():
        gating.put_cache(name, cache)
    for name, node in view.nodes.items():
        gating.put_node(name, node, now)
    for key, pod in view.pods.items():
        gating.put_pod(key, pod)
    return gating


def decided_by(gating: Gating, now: float, bookings: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Outcome:
    """Return what a pass comes to, made without a pause."""
    slices = gating.decide(now, bookings)
    try:
        while True:
            next(slices)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome


def decide_releases(
    view: ClusterView, now: float, bookings: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> Outcome:
    """Return the first pass over what is in ``view``: it decides on all held pods."""
    return decided_by(filled(view, now), now, bookings)


def only_release(outcome: Outcome) -> Release:
    assert not outcome.holds
    (release,) = outcome.releases
    return release


def only_hold(outcome: Outcome) -> Hold:
    assert not outcome.releases
    (hold,) = outcome.holds
    return hold


def required_names(release: Release) -> list[str]:
    assert release.affinity is not None
    required = release.affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [one["matchFields"][0]["values"][0] for one in required["nodeSelectorTerms"]]


def preferred(release: Release) -> list[tuple[int, str]]:
    assert release.affinity is not None
    terms = release.affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    return [(one["weight"], one["preference"]["matchFields"][0]["values"][0]) for one in terms]

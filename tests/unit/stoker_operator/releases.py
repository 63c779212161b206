"""Helpers for tests of releases: times, and the outcome for the only gated pod."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from stoker_operator.core.gating.gating import Gating
from stoker_operator.core.gating.releases import Hold, Outcome, Release
from stoker_operator.core.views.cluster import ClusterView

NOW = 1030.0
SEEN = 1060.0  # release time of a pod that fits no node, so that autoscalers see it
LATE = 1000.0 + 601
REQUIRE = {"mode": "Require", "maxWait": "10m"}


def filled(view: ClusterView, now: float = NOW) -> Gating:
    """Return a gating that knows the objects in ``view``."""
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
    """Return the outcome of a pass."""
    return gating.decide(now, bookings)


def decide_releases(
    view: ClusterView, now: float, bookings: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> Outcome:
    """Return the first pass over ``view``. It decides about all gated pods."""
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

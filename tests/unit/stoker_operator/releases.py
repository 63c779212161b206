"""What tests of releases look at: times, and what became of the one pod that is held."""

from stoker_operator.core.gating import Hold, Outcome, Release

NOW = 1030.0
SEEN = 1060.0  # when a pod that no node could take is let go, for autoscalers to see
LATE = 1000.0 + 601
REQUIRE = {"mode": "Require", "maxWait": "10m"}


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

"""Checks of Datasets and TuningProfiles, by the conditions that operator and nodes write."""

from collections.abc import Iterator

from stoker_api.names import ConditionType
from stoker_cli.support.facts import ALL_DATASETS, PROFILES, ClusterFacts, Raw, condition_of, key_of, name_of
from stoker_cli.support.findings import Finding, fail, ok, warn

# Conditions that must not be False, and conditions that must not be True.
_BAD_IF_FALSE = (ConditionType.ACCEPTED, ConditionType.LISTED, ConditionType.RECONCILED)
_LIMITS_IF_TRUE = (ConditionType.DEGRADED, ConditionType.SOURCE_SLOWED)


def source_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check that each Dataset is accepted, and that nodes can list and read its source."""
    for dataset in facts.items(ALL_DATASETS):
        yield _source(dataset)


def _source(dataset: Raw) -> Finding:
    key, conditions = key_of(dataset), [(kind, condition_of(dataset, kind)) for kind in _BAD_IF_FALSE]
    for kind, condition in conditions:
        if condition.get("status") == "False" and condition.get("reason") != "Listing":
            return fail("Dataset", key, f"{kind} is False: {_sentence(condition)}", _section(condition))
    for kind in _LIMITS_IF_TRUE:
        condition = condition_of(dataset, kind)
        if condition.get("status") == "True":
            return warn("Dataset", key, f"{kind} is True: {_sentence(condition)}", _section(condition))
    return ok("Dataset", key, "its source is listed, and no node reports an error")


def profile_checks(facts: ClusterFacts) -> Iterator[Finding]:
    """Check that each TuningProfile is valid."""
    for profile in facts.items(PROFILES):
        name, accepted = name_of(profile), condition_of(profile, ConditionType.ACCEPTED)
        if accepted.get("status") == "False":
            action = "Check it: kubectl get tuningprofile NAME -o yaml | stoker validate -"
            yield warn("TuningProfile", name, _sentence(accepted), action)
        else:
            yield ok("TuningProfile", name, "is valid")


def _sentence(condition: Raw) -> str:
    return str(condition.get("message") or condition.get("reason") or "no reason is given")[:500]


def _section(condition: Raw) -> str:
    reason = condition.get("reason")
    return f"See {reason} in docs/operations/troubleshooting.md." if reason else ""

"""The status of TuningProfiles: validity, nodes that have them, and results of their rules."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from stoker_api.datasets.dataset import Dataset
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.profiles.tuning import NodeProfile, NodeRuleFigures, RuleFigures
from stoker_api.profiles.tuningprofile import MOST_PROFILE_ROWS, ProfileNode, TuningProfileStatus
from stoker_operator.core.classes.profiles import ProfileView
from stoker_operator.core.status.dataset_transitions import Announcement, moved
from stoker_operator.core.views.cluster import InvalidDataset
from stoker_operator.core.views.conditions import ConditionSet, find
from stoker_operator.core.views.resources import clamp

# Seconds between two writes of a status if only one thing changed. Rule results: nodes report them once a minute. Nodes
# with a profile: all nodes report within a few seconds of a change.
FIGURES_EVERY = 60.0
WHERE_EVERY = 5.0
MOST_SENT = 1_000_000  # bytes a second to all nodes together for these writes


@dataclass
class ProfileUse:
    """The nodes and Datasets of one profile, and its rule results."""

    nodes: list[tuple[str, NodeProfile]] = field(default_factory=list)
    datasets: list[str] = field(default_factory=list)
    # By rule: how often it matched, acted, helped. None: not counted.
    rules: dict[str, tuple[int, int, int]] | None = None


def profile_uses(
    caches: Mapping[str, NodeCache], datasets: Mapping[str, Dataset | InvalidDataset], *, with_rules: bool = True
) -> Mapping[str, ProfileUse]:
    """Return the use of each profile, by name, from nodes' reports and Datasets' statuses.

    ``with_rules``: also count rule results, which are many.
    """
    found: dict[str, ProfileUse] = {}
    for node, cache in caches.items():
        given = {"", *(entry.tuning.profile for entry in cache.spec.datasets)}
        for row in (row for row in cache.status.tuning_profiles if row.profile in given):
            found.setdefault(row.profile, ProfileUse()).nodes.append((node, row))
        for figures in (row for row in cache.status.tuning if with_rules and row.profile in given):
            _add(found.setdefault(figures.profile, ProfileUse()), figures)
    for key, dataset in datasets.items():
        told = dataset.status.tuning
        if told is not None and told.profile:
            found.setdefault(told.profile, ProfileUse()).datasets.append(key)
    return found


def _add(use: ProfileUse, figures: NodeRuleFigures) -> None:
    if use.rules is None:
        use.rules = {}
    matched, acted, helped = use.rules.get(figures.rule, (0, 0, 0))
    more = (max(0, figures.matched), max(0, figures.acted), max(0, figures.helped))
    use.rules[figures.rule] = (matched + more[0], acted + more[1], helped + more[2])


def roll_up_profile(
    profile: ProfileView, use: ProfileUse, *, is_default: bool, enabled: bool, now: float
) -> TuningProfileStatus:
    """Return the new status of a profile. ``enabled``: tuning is on in the cluster."""
    meta, reading, old = profile.metadata, profile.reading, profile.status
    conditions = ConditionSet(old.conditions, meta.generation, now)
    if reading.problem:
        kept = f"; generation {old.accepted_generation} stays in force" if old.accepted_generation else ""
        conditions.set(ConditionType.ACCEPTED, False, Reason.PROFILE_INVALID, f"{reading.problem}{kept}")
    else:
        off = "" if enabled else "; tuning is off in this cluster, so they have no effect"
        noun = "rule" if reading.rules == 1 else "rules"
        sentence = f"{reading.rules} {noun} in addition to the built-in ones{off}"
        conditions.set(ConditionType.ACCEPTED, True, Reason.ACCEPTED, sentence)
    good = not reading.problem
    return TuningProfileStatus(
        observed_generation=meta.generation,
        conditions=conditions.result(),
        accepted_generation=meta.generation if good else old.accepted_generation,
        default=is_default,
        rule_count=reading.rules if good else old.rule_count,
        templates=tuple(sorted(reading.templates))[:MOST_PROFILE_ROWS] if good else old.templates,
        node_count=len(use.nodes),
        nodes=_node_rows(use.nodes, meta.generation),
        dataset_count=len(use.datasets),
        datasets=tuple(sorted(use.datasets)[:MOST_PROFILE_ROWS]),
        rules=old.rules if use.rules is None else _rule_rows(use.rules),
    )


def pause_before(old: TuningProfileStatus, new: TuningProfileStatus, size: int, nodes: int) -> float:
    """Return the minimum seconds between the last write of a status and this one.

    A decision about the profile returns 0. Changes of nodes and rule results wait: each write sends the object, with
    ``size`` bytes of document, to all ``nodes``, because they watch it.
    """
    if _essence(old) != _essence(new):
        return 0.0
    least = FIGURES_EVERY if _without_rules(old) == _without_rules(new) else WHERE_EVERY
    return max(least, size * nodes / MOST_SENT)


def _essence(status: TuningProfileStatus) -> TuningProfileStatus:
    nothing = {"nodes": (), "node_count": 0, "datasets": (), "dataset_count": 0}
    return _without_rules(status).model_copy(update=nothing)


def _without_rules(status: TuningProfileStatus) -> TuningProfileStatus:
    return status.model_copy(update={"rules": ()})


def profile_announcements(old: TuningProfileStatus, new: TuningProfileStatus) -> Iterator[Announcement]:
    """Yield the event that the profile is accepted or rejected, once a generation."""
    accepted = find(new.conditions, ConditionType.ACCEPTED)
    news = new.observed_generation != old.observed_generation
    if accepted and (news or moved(old.conditions, accepted)):
        kind = "Normal" if accepted.status == "True" else "Warning"
        yield Announcement("Normal" if kind == "Normal" else "Warning", accepted.reason, accepted.message)


def _node_rows(nodes: Iterable[tuple[str, NodeProfile]], generation: int) -> tuple[ProfileNode, ...]:
    def order(pair: tuple[str, NodeProfile]) -> tuple[bool, str]:
        return not pair[1].message and pair[1].generation == generation, pair[0]

    first = sorted(nodes, key=order)[:MOST_PROFILE_ROWS]
    return tuple(ProfileNode(name=name, **dict(row)) for name, row in first)


def _rule_rows(rules: Mapping[str, tuple[int, int, int]]) -> tuple[RuleFigures, ...]:
    first = sorted(rules, key=lambda rule: (-rules[rule][0], rule))[:MOST_PROFILE_ROWS]
    rows = ((rule, *map(clamp, rules[rule])) for rule in first)
    return tuple(
        RuleFigures(rule=rule, matched=matched, acted=acted, helped=helped) for rule, matched, acted, helped in rows
    )

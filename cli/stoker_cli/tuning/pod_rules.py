"""The rules with which a node tunes the Datasets of a pod."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker_api import names
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.profiles.tuning import NodeTuning
from stoker_cli.output import printable
from stoker_tuning.documents.assembly import builtin_rules, read_profile
from stoker_tuning.documents.builtin_documents import builtin_documents
from stoker_tuning.documents.errors import DocumentError
from stoker_tuning.documents.profile_models import TuningDocument
from stoker_tuning.rules.spec import ActionSpec, RuleOrigin, RuleSpec
from stoker_tuning.vocabulary import ActionTarget, ActionType, OptimizationLevel, RuleLayer

UNKNOWN_RULES = (
    "The rules in force are unknown, because you may not read NodeCaches (ClusterRole stoker-node-view). "
    "Use --profile FILE to explain the rules of a file.",
)
_BUILT_IN = "the built-in rules"
# Priority after the rules of the profile and before those of environments and frameworks, as on nodes.
_AFTER_THE_PROFILE = -2
_OFF = "off"

Profiles = Mapping[str, Mapping[str, Any]]  # raw TuningProfiles by name


@dataclass(frozen=True)
class NodePluginRules:
    """The documents of the plug-ins in force on a node that are also installed here.

    ``missing``: sentences about the plug-ins that are not.
    """

    documents: tuple[TuningDocument, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class RulesInUse:
    """The rules for some Datasets of a pod (NAMESPACE/NAME), their description, and notes for the user.

    ``profile``: the TuningProfile in force. Empty: none.
    """

    datasets: tuple[str, ...]
    rules: tuple[RuleSpec, ...]
    description: str = _BUILT_IN
    notes: tuple[str, ...] = ()
    profile: str = ""


def profiles_wanted(cache: NodeCache, row: NodeWorkload) -> tuple[str, ...]:
    """Return the names of the TuningProfiles of the Datasets of a pod."""
    return tuple(dict.fromkeys(tuning.profile for tuning in _tunings(cache, row) if tuning.profile))


def plugins_in_use(cache: NodeCache, installed: Iterable[TuningDocument]) -> NodePluginRules:
    """Return the rules of plug-ins in force on a node that are installed here."""
    here = {framework.name: each for each in installed for framework in each.spec.frameworks}
    in_force = [row for row in cache.status.plugins if row.rules and not row.message]
    missing = [
        f"{row.rules} rules of the plug-in {row.name} are not included. Install {row.package} here, and use --plugins."
        for row in in_force
        if row.name not in here
    ]
    return NodePluginRules(tuple(here[row.name] for row in in_force if row.name in here), tuple(missing))


def rules_in_use(
    cache: NodeCache, row: NodeWorkload, profiles: Profiles, installed: Iterable[TuningDocument] = ()
) -> list[RulesInUse]:
    """Return the rules for the Datasets of a pod, grouped by equal rules. Never empty.

    ``installed``: documents of the plug-ins that are installed here.
    """
    plugins = plugins_in_use(cache, installed)
    groups = [
        _in_use(cache, tuning, tuple(datasets), profiles.get(tuning.profile), plugins)
        for tuning, datasets in _tunings(cache, row).items()
    ]
    notes = tuple(map(printable, plugins.missing))
    return groups or [RulesInUse(row.datasets, tuple(builtin_rules(plugins=plugins.documents)), notes=notes)]


def _tunings(cache: NodeCache, row: NodeWorkload) -> dict[NodeTuning, list[str]]:
    by_name = {f"{dataset.namespace}/{dataset.name}": dataset.tuning for dataset in cache.spec.datasets}
    tunings: dict[NodeTuning, list[str]] = {}
    for name in row.datasets:
        if name in by_name:
            tunings.setdefault(by_name[name], []).append(name)
    return tunings


def _in_use(
    cache: NodeCache,
    tuning: NodeTuning,
    datasets: tuple[str, ...],
    profile: Mapping[str, Any] | None,
    plugins: NodePluginRules,
) -> RulesInUse:
    notes = [*_notes(cache, tuning, profile), *plugins.missing]
    description, rules = _BUILT_IN, tuple(builtin_rules(plugins=plugins.documents))
    try:
        if profile is not None or tuning.template or tuning.environment:
            rules = _rules(tuning, profile, plugins.documents)
            description = f"the rules of TuningProfile {tuning.profile} and the built-in ones" if profile else _BUILT_IN
            description += f", with the template {tuning.template}" if tuning.template else ""
            description += (
                f", in the environment {environment}" if (environment := _environment(tuning, profile)) else ""
            )
    except DocumentError as error:
        notes.append(f"TuningProfile {tuning.profile} is invalid: {error.problems[0].message}")
    named = [framework.name for each in plugins.documents for framework in each.spec.frameworks]
    description += f", with those of the plug-in{'s'[: len(named) - 1]} {', '.join(named)}" if named else ""
    if tuning.level is not None:
        rules = (*rules, _own_level(tuning.level))
    in_force = tuning.profile if profile is not None else ""
    return RulesInUse(datasets, rules, printable(description), tuple(map(printable, notes)), in_force)


def _notes(cache: NodeCache, tuning: NodeTuning, profile: Mapping[str, Any] | None) -> Iterable[str]:
    if not tuning.enabled:
        yield "These values are not applied: tuning is off for the Dataset."
    if cache.metadata.annotations.get(names.ANNOTATION_TUNING, "").lower() == _OFF:
        yield f"These values are not applied: tuning is off on {cache.metadata.name}."
    if tuning.environment and not _environment(tuning, profile):
        yield f"The environment {tuning.environment} is unknown here and not included."
    if tuning.most_level is not None:
        yield f"The DatasetClass allows at most the level {tuning.most_level}."
    if tuning.profile and profile is None:
        yield f"TuningProfile {tuning.profile} is not included: it does not exist, or you may not read it."
    row = next((each for each in cache.status.tuning_profiles if each.profile == tuning.profile), None)
    generation = int(profile["metadata"].get("generation", 0)) if profile else 0
    if profile is not None and (row is None or row.generation != generation):
        in_force = f"generation {row.generation}" if row is not None and row.generation else "no generation"
        why = f": {row.message}" if row is not None and row.message else ""
        yield f"This is generation {generation}; the node applies {in_force}{why or '.'}"


def _environment(tuning: NodeTuning, profile: Mapping[str, Any] | None) -> str:
    """Return the environment in force: that of the profile, else that of the cluster if it is known here."""
    spec = (profile.get("spec") or {}) if profile else {}
    in_profile = [str(each.get("name")) for each in spec.get("environments") or () if isinstance(each, Mapping)]
    existing = {each.name for document in builtin_documents() for each in document.spec.environments}.union(in_profile)
    return str(spec.get("environment") or (tuning.environment if tuning.environment in existing else ""))


def _rules(
    tuning: NodeTuning, profile: Mapping[str, Any] | None, plugins: Sequence[TuningDocument]
) -> tuple[RuleSpec, ...]:
    """Read a profile with a template. Raises DocumentError."""
    spec = dict(profile.get("spec") or {}) if profile else {}
    if tuning.template:
        spec["use"] = [*(spec.get("use") or ()), {"template": tuning.template}]
    if environment := _environment(tuning, profile):
        spec["environment"] = environment
    document = {"apiVersion": names.API_VERSION, "kind": "TuningProfile", "spec": spec}
    return read_profile(json.dumps(document | {"metadata": {"name": tuning.profile or "stoker"}}), plugins).rules


def _own_level(level: OptimizationLevel) -> RuleSpec:
    action = ActionSpec(ActionType.PRIORITIZE, ActionTarget.DATASET, {"level": level})
    return RuleSpec("level", RuleOrigin("Dataset", RuleLayer.CUSTOM), (), (action,), _AFTER_THE_PROFILE)

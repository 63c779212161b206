"""By which rules a node tunes the Datasets of a pod: those of the TuningProfiles that it was told of."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker_api import names
from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import NodeCache
from stoker_api.tuning import NodeTuning
from stoker_cli.tuning_rows import printable
from stoker_tuning.documents.assembly import builtin_rules, read_profile
from stoker_tuning.documents.builtin_documents import builtin_documents
from stoker_tuning.documents.errors import DocumentError
from stoker_tuning.documents.profile_models import TuningDocument
from stoker_tuning.rules.spec import ActionSpec, RuleOrigin, RuleSpec
from stoker_tuning.vocabulary import ActionTarget, ActionType, OptimizationLevel, RuleLayer

_BUILT_IN = "the built-in rules"
# After the rules of the profile, and before those of environments and frameworks, as nodes count it.
_AFTER_THE_PROFILE = -2
_OFF = "off"

Profiles = Mapping[str, Mapping[str, Any]]  # TuningProfiles as they came, by name


@dataclass(frozen=True)
class NodePluginRules:
    """The documents of the plug-ins whose rules a node has in force, as far as they are installed here.

    ``missing``: those that are not; sentences.
    """

    documents: tuple[TuningDocument, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class RulesInUse:
    """The rules for some of a pod's Datasets, named NAMESPACE/NAME; ``told``: whose; ``notes``: what else counts."""

    datasets: tuple[str, ...]
    rules: tuple[RuleSpec, ...]
    told: str = _BUILT_IN
    notes: tuple[str, ...] = ()


def profiles_wanted(cache: NodeCache, row: NodeWorkload) -> tuple[str, ...]:
    """Return the names of the TuningProfiles that the Datasets of a pod have on its node."""
    return tuple(dict.fromkeys(tuning.profile for tuning in _tunings(cache, row) if tuning.profile))


def plugins_in_use(cache: NodeCache, installed: Iterable[TuningDocument]) -> NodePluginRules:
    """Return the rules of plug-ins that count on a node, of those that are installed here."""
    here = {framework.name: each for each in installed for framework in each.spec.frameworks}
    there = [row for row in cache.status.plugins if row.rules and not row.message]
    missing = [
        f"{row.rules} rules of the plug-in {row.name} ({row.package}) count there and are not in this: "
        "install its package here, and ask with --plugins."
        for row in there
        if row.name not in here
    ]
    return NodePluginRules(tuple(here[row.name] for row in there if row.name in here), tuple(missing))


def rules_in_use(
    cache: NodeCache, row: NodeWorkload, profiles: Profiles, installed: Iterable[TuningDocument] = ()
) -> list[RulesInUse]:
    """Return by which rules the Datasets of a pod are tuned, those that have the same together; never nothing.

    ``installed``: documents of plug-ins that are here.
    """
    plugins = plugins_in_use(cache, installed)
    found = [
        _in_use(cache, tuning, tuple(datasets), profiles.get(tuning.profile), plugins)
        for tuning, datasets in _tunings(cache, row).items()
    ]
    notes = tuple(map(printable, plugins.missing))
    return found or [RulesInUse(row.datasets, tuple(builtin_rules(plugins=plugins.documents)), notes=notes)]


def _tunings(cache: NodeCache, row: NodeWorkload) -> dict[NodeTuning, list[str]]:
    by_name = {f"{one.namespace}/{one.name}": one.tuning for one in cache.spec.datasets}
    found: dict[NodeTuning, list[str]] = {}
    for name in row.datasets:
        if name in by_name:
            found.setdefault(by_name[name], []).append(name)
    return found


def _in_use(
    cache: NodeCache,
    tuning: NodeTuning,
    datasets: tuple[str, ...],
    profile: Mapping[str, Any] | None,
    plugins: NodePluginRules,
) -> RulesInUse:
    notes = [*_notes(cache, tuning, profile), *plugins.missing]
    told, rules = _BUILT_IN, tuple(builtin_rules(plugins=plugins.documents))
    try:
        if profile is not None or tuning.template or tuning.environment:
            rules = _rules(tuning, profile, plugins.documents)
            told = f"the rules of TuningProfile {tuning.profile} and the built-in ones" if profile else _BUILT_IN
            told += f", with the template {tuning.template}" if tuning.template else ""
            told += f", in the environment {environment}" if (environment := _environment(tuning, profile)) else ""
    except DocumentError as error:
        notes.append(f"TuningProfile {tuning.profile} cannot be read ({error.problems[0].message}).")
    named = [framework.name for each in plugins.documents for framework in each.spec.frameworks]
    told += f", with those of the plug-in{'s'[: len(named) - 1]} {', '.join(named)}" if named else ""
    if tuning.level is not None:
        rules = (*rules, _own_level(tuning.level))
    return RulesInUse(datasets, rules, printable(told), tuple(map(printable, notes)))


def _notes(cache: NodeCache, tuning: NodeTuning, profile: Mapping[str, Any] | None) -> Iterable[str]:
    if not tuning.enabled:
        yield "Nothing of this is turned: tuning is off for it."
    if cache.metadata.annotations.get(names.ANNOTATION_TUNING, "").lower() == _OFF:
        yield f"Nothing of this is turned: tuning is off on {cache.metadata.name}."
    if tuning.environment and not _environment(tuning, profile):
        yield f"The environment {tuning.environment} is not known here, so it is left out."
    if tuning.most_level is not None:
        yield f"Its DatasetClass allows the level {tuning.most_level} at most."
    if tuning.profile and profile is None:
        yield f"TuningProfile {tuning.profile} is not there, or you may not read it: its rules are not in this."
    row = next((each for each in cache.status.tuning_profiles if each.profile == tuning.profile), None)
    generation = int(profile["metadata"].get("generation", 0)) if profile else 0
    if profile is not None and (row is None or row.generation != generation):
        in_force = f"generation {row.generation}" if row is not None and row.generation else "none of it"
        why = f": {row.message}" if row is not None and row.message else ""
        yield f"This is generation {generation}; by what the node says, {in_force} is in force{why or '.'}"


def _environment(tuning: NodeTuning, profile: Mapping[str, Any] | None) -> str:
    """Return the environment that is in force: the profile's own, else the cluster's where it is known."""
    spec = (profile.get("spec") or {}) if profile else {}
    own = [str(each.get("name")) for each in spec.get("environments") or () if isinstance(each, Mapping)]
    known = {each.name for document in builtin_documents() for each in document.spec.environments}.union(own)
    return str(spec.get("environment") or (tuning.environment if tuning.environment in known else ""))


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

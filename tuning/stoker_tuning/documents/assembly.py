"""Turns documents into plain rules: fills templates, and makes frameworks and hardware gates. Settings come last.

A definition hides the built-in one of the same name.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from stoker_tuning.documents.builtin_documents import builtin_documents
from stoker_tuning.documents.errors import DocumentError, Problem, quoted, suggestion
from stoker_tuning.documents.profile_models import (
    MOST_RULES,
    HardwareProfile,
    RuleGroup,
    RuleTemplate,
    TuningDocument,
    TuningSettings,
)
from stoker_tuning.documents.reading import read_document
from stoker_tuning.documents.rule_models import TuningRule
from stoker_tuning.documents.tree import Path, Tree
from stoker_tuning.documents.values import MOST_REGEX_SIZE, TOO_MANY_PATTERNS, regex_size
from stoker_tuning.frameworks.answers import PluginAnswer, PluginRefusedError
from stoker_tuning.recommend.knobs import knob_names
from stoker_tuning.rules.spec import ActionSpec, ConditionSpec, KnobValue, RuleOrigin, RuleSpec
from stoker_tuning.vocabulary import (
    ActionTarget,
    ActionType,
    ConditionOperator,
    ConditionScope,
    RuleLayer,
)

SETTINGS_RULE = "settings"  # the rule id of a document's settings
_AFTER_ALL_RULES = -1  # as a priority

Named = TypeVar("Named")


@dataclass(frozen=True)
class TuningRules:
    """The rules of one profile, with the visible built-in ones, and its environment.

    ``metrics_collection``: from its settings, whether nodes test the rules.
    """

    name: str
    rules: tuple[RuleSpec, ...]
    environment: str | None
    metrics_collection: bool = True


def read_profile(source: bytes | str, plugins: Sequence[TuningDocument] = ()) -> TuningRules:
    """Read a document and return its rules, with the built-in ones and those of plug-ins.

    ``plugins``: the document of each, from ``plugin_document``. Raises only DocumentError.
    """
    document, tree = read_document(source)
    own = _Assembly(document, tree, plugins=plugins).rules()
    spec, settings = document.spec, document.spec.settings
    rules = (*own, *builtin_rules(document, plugins))
    return TuningRules(document.metadata.name, rules, spec.environment, settings.metrics_collection)


def builtin_rules(document: TuningDocument | None = None, plugins: Sequence[TuningDocument] = ()) -> list[RuleSpec]:
    """Return the rules of the built-in documents and of plug-ins, except those that a document hides."""
    found: list[RuleSpec] = []
    for builtin in (*builtin_documents(), *plugins):
        found += _Assembly(builtin, None, hidden_by=document).rules()
    return found


def check_document(document: TuningDocument, tree: Tree) -> None:
    """Check the references in a document. Raises DocumentError."""
    _Assembly(document, tree).rules()


class _Assembly:
    """Builds the rules of one document; ``tree`` is None for a document of the program, in a lower layer."""

    def __init__(
        self,
        document: TuningDocument,
        tree: Tree | None,
        hidden_by: TuningDocument | None = None,
        plugins: Sequence[TuningDocument] = (),
    ) -> None:
        self._spec, self._tree, self._hidden_by = document.spec, tree, hidden_by
        self._name = document.metadata.name
        self._problems: list[Problem] = []
        self._templates = _templates(document, plugins)

    def rules(self) -> list[RuleSpec]:
        """Return all rules. Raises DocumentError for unknown names, and for too many rules."""
        spec, builtin = self._spec, self._tree is None
        own_layer = RuleLayer.BUILT_IN if builtin else RuleLayer.CUSTOM
        found = self._group(spec, ("spec",), RuleOrigin(self._name, own_layer))
        found += _settings(spec.settings, RuleOrigin(self._name, own_layer, "settings"))
        found += self._environment()
        for number, hardware in self._kept(spec.hardware_profiles, "hardware_profiles"):
            origin = RuleOrigin(self._name, RuleLayer.ENVIRONMENT, f"hardware profile {hardware.name}")
            group = self._group(hardware, ("spec", "hardware_profiles", number), origin)
            found += _gated([*group, *_settings(hardware.settings, origin)], _hardware_gates(hardware))
        for number, framework in self._kept(spec.frameworks, "frameworks"):
            origin = RuleOrigin(self._name, RuleLayer.FRAMEWORK, f"framework {framework.name}")
            group = self._group(framework, ("spec", "frameworks", number), origin)
            found += _gated(group, (_framework_gate(framework.name),))
        self._check_unused_environments()
        self._check_size(found)
        if self._problems:
            raise DocumentError(self._problems)
        return found

    def _environment(self) -> list[RuleSpec]:
        """Return the rules of the active environment, which a profile may also take from the built-in documents."""
        asked = self._hidden_by.spec.environment if self._hidden_by is not None else self._spec.environment
        if asked is None:
            return []
        for number, each in self._kept(self._spec.environments, "environments"):
            if each.name == asked:
                origin = RuleOrigin(self._name, RuleLayer.ENVIRONMENT, f"environment {asked}")
                group = self._group(each, ("spec", "environments", number), origin)
                return [*group, *_settings(each.settings, origin)]
        if self._tree is not None:
            known = sorted({each.name for document in builtin_documents() for each in document.spec.environments})
            if asked not in known:
                own = [each.name for each in self._spec.environments]
                self._tell(
                    ("spec", "environment"), f"{quoted(asked)} is no environment: {suggestion(asked, own + known)}"
                )
        return []

    def _check_unused_environments(self) -> None:
        """Also check the templates of inactive environments."""
        if self._tree is None:
            return
        for number, each in enumerate(self._spec.environments):
            if each.name != self._spec.environment:
                origin = RuleOrigin(self._name, RuleLayer.ENVIRONMENT)
                self._group(each, ("spec", "environments", number), origin)

    def _kept(self, items: Sequence[Named], kind: str) -> Iterable[tuple[int, Named]]:
        """Return the items, with their numbers, that the active document does not define."""
        own = getattr(self._hidden_by.spec, kind) if self._hidden_by is not None else ()
        hidden = {each.name for each in own}
        return [(number, each) for number, each in enumerate(items) if getattr(each, "name", None) not in hidden]

    def _group(self, group: RuleGroup, path: Path, origin: RuleOrigin) -> list[RuleSpec]:
        found = [_plain(rule, origin, {}) for rule in group.rules]
        for number, use in enumerate(group.use):
            template = self._templates.get(use.template)
            if template is None:
                sentence = f"{quoted(use.template)} is no template: {suggestion(use.template, sorted(self._templates))}"
                self._tell((*path, "use", number, "template"), sentence)
                continue
            name = ", ".join(filter(None, (origin.group, f"template {template.id}")))
            parameters = {**template.parameters, **use.parameters}
            self._check_parameters(template, use.parameters, (*path, "use", number, "parameters"))
            found += [_plain(rule, replace(origin, group=name), parameters) for rule in template.rules]
        return found

    def _check_parameters(self, template: RuleTemplate, given: Mapping[str, KnobValue], path: Path) -> None:
        """Refuse parameters without effect: no rule of the template leaves them open."""
        actions = [action for rule in template.rules for action in rule.actions]
        open_ones = {knob for action in actions for knob in knob_names(action.type) if knob not in action.parameters}
        for name in given:
            if name not in open_ones:
                sentence = f"no rule of the template {quoted(template.id)} leaves it open"
                self._tell((*path, name), f"{sentence}: {suggestion(name, sorted(open_ones))}")

    def _check_size(self, found: list[RuleSpec]) -> None:
        if len(found) > MOST_RULES + len(RuleLayer):
            self._tell(("spec",), f"there are {len(found)} rules with those of templates: {MOST_RULES} is the most")
        elif sum(_regex_size(rule) for rule in found) > MOST_REGEX_SIZE:
            self._tell(("spec",), TOO_MANY_PATTERNS)

    def _tell(self, path: Path, sentence: str) -> None:
        if self._tree is None:
            raise ValueError(f"the built-in document {self._name} is wrong at {path}: {sentence}")
        self._problems.append(self._tree.problem(path, sentence))


def _templates(document: TuningDocument, plugins: Sequence[TuningDocument]) -> dict[str, RuleTemplate]:
    """Return the templates for a document: its own, else the built-in ones, else those of plug-ins."""
    known = {each.id: each for other in (*plugins, *builtin_documents()) for each in other.spec.templates}
    return known | {each.id: each for each in document.spec.templates}


def _plain(rule: TuningRule, origin: RuleOrigin, parameters: Mapping[str, KnobValue]) -> RuleSpec:
    return RuleSpec(
        id=rule.id,
        origin=origin,
        conditions=tuple(
            ConditionSpec(each.type, each.property, each.operator, each.value, each.weight) for each in rule.conditions
        ),
        actions=tuple(
            ActionSpec(each.type, each.target, _filled(each.type, each.parameters, parameters)) for each in rule.actions
        ),
        priority=rule.priority,
        threshold=rule.threshold,
        name=rule.name,
        description=rule.description,
    )


def _filled(action: ActionType, own: Mapping[str, KnobValue], given: Mapping[str, KnobValue]) -> dict[str, KnobValue]:
    """Return an action's parameters; the template fills the open ones."""
    return {name: given[name] for name in knob_names(action) if name in given} | dict(own)


def _settings(settings: TuningSettings, origin: RuleOrigin) -> list[RuleSpec]:
    """Return settings as a rule that always applies, after the rest of its layer."""
    named: dict[ActionType, dict[str, KnobValue]] = {
        ActionType.PRIORITIZE: {"level": settings.level} if settings.level else {},
        ActionType.PREFETCH: {"strategy": settings.strategy} if settings.strategy else {},
        ActionType.CACHE: {"cache_policy": settings.cache_policy} if settings.cache_policy else {},
    }
    actions = tuple(ActionSpec(type, ActionTarget.WORKLOAD, values) for type, values in named.items() if values)
    return [RuleSpec(SETTINGS_RULE, origin, (), actions, _AFTER_ALL_RULES)] if actions else []


def _gated(rules: list[RuleSpec], gates: tuple[ConditionSpec, ...]) -> list[RuleSpec]:
    return [replace(rule, gates=gates) for rule in rules]


def _hardware_gates(hardware: HardwareProfile) -> tuple[ConditionSpec, ...]:
    scope = ConditionScope.SYSTEM_CONTEXT
    return tuple(ConditionSpec(scope, name, each.operator, each.value) for name, each in hardware.conditions.items())


def _framework_gate(name: str) -> ConditionSpec:
    return ConditionSpec(ConditionScope.WORKLOAD_CONTEXT, "framework", ConditionOperator.EQUALS, name)


def _regex_size(rule: RuleSpec) -> int:
    """Return the total size of a rule's regular expressions."""
    patterns = [str(each.value) for each in rule.conditions if each.operator is ConditionOperator.MATCHES]
    return sum(map(regex_size, patterns))


def plugin_document(answer: PluginAnswer) -> TuningDocument:
    """Make a plug-in's rules and templates a document; its rules count for workloads of its framework alone.

    Raises PluginRefusedError with a sentence where they are not what documents may say.
    """
    source = {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "TuningProfile",
        "metadata": {"name": f"plugin-{answer.name.replace('_', '-').replace('.', '-')}"},
        "spec": {"frameworks": [{"name": answer.name, "rules": answer.rules}], "templates": answer.templates},
    }
    try:
        document, tree = read_document(json.dumps(source))
        check_document(document, tree)
    except DocumentError as error:
        first = error.problems[0]
        raise PluginRefusedError(f"its rules or templates are refused: {first.path}: {first.message}") from None
    return document

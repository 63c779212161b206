"""docs/reference/rules.md from the models and tables: `python -m stoker_tuning.documents.reference FILE` writes it."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from pydantic import BaseModel

from stoker_tuning.documents import profile_models, reference_text, rule_models, tree, values
from stoker_tuning.documents.builtin_documents import builtin_documents
from stoker_tuning.documents.named_sets import named_sets
from stoker_tuning.documents.values import format_size
from stoker_tuning.recommend.knobs import KNOB_BY_NAME, KNOBS, REMOVED, Knob, KnobKind
from stoker_tuning.recommend.named_sets import NamedSet
from stoker_tuning.rules.conditions import MOST_MEMORY
from stoker_tuning.rules.globs import MOST_PATTERN
from stoker_tuning.rules.properties import OPERATORS, PROPERTIES, ValueKind
from stoker_tuning.vocabulary import ActionType

_MODELS: tuple[type[BaseModel], ...] = (
    profile_models.TuningDocument,
    profile_models.TuningSpec,
    rule_models.TuningRule,
    rule_models.RuleCondition,
    rule_models.RuleAction,
    profile_models.TemplateUse,
    profile_models.RuleTemplate,
    profile_models.FrameworkProfile,
    profile_models.EnvironmentProfile,
    profile_models.HardwareProfile,
    profile_models.TuningSettings,
)
_KIND_WORDS = {
    ValueKind.TEXT: "text",
    ValueKind.NUMBER: "a number",
    ValueKind.BYTES: "bytes, such as `64Mi`",
    ValueKind.GLOB: "a glob",
}


def reference() -> str:
    """Return the page."""
    parts = [
        reference_text.HEADER,
        reference_text.FIVE_MINUTES,
        _fields(),
        _conditions(),
        _actions(),
        reference_text.PRECEDENCE,
        _named_sets(),
        _builtin(),
        _limits(),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _list(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"- {': '.join(part for part in row if part)}" for row in rows)


def _fields() -> str:
    parts = ["## The document", reference_text.DOCUMENT]
    for model in _MODELS:
        rows = [
            (f"`{field.alias or name}`{'*' if field.is_required() else ''}", field.description or "")
            for name, field in model.model_fields.items()
            if ("settings", name) not in REMOVED
        ]
        title = (model.__doc__ or "").splitlines()[0]
        parts += [f"### {model.__name__}", title, _list(rows)]
    return "\n\n".join(parts)


def _grouped(rows: Iterable[tuple[str, str, str, str]]) -> str:
    """Return a list for each group of rows: group, name, values, meaning."""
    groups = groupby(rows, key=lambda row: row[0])
    return "\n\n".join(
        f"`{group}`:\n\n" + _list((f"`{name}` ({allowed})", about) for _, name, allowed, about in items)
        for group, items in groups
    )


def _conditions() -> str:
    rows = [
        (each.scope, each.name, ", ".join(f"`{word}`" for word in each.words) or _KIND_WORDS[each.kind], each.about)
        for each in PROPERTIES
    ]
    kinds = [(kind, ", ".join(f"`{operator}`" for operator in known)) for kind, known in OPERATORS.items()]
    return "\n\n".join(
        ["## Conditions", _grouped(rows), "Operators by kind of value:", _list(kinds), reference_text.CONDITIONS]
    )


def _bounds(knob: Knob) -> str:
    if knob.words is not None:
        return ", ".join(f"`{word}`" for word in knob.words)
    return "`true`, `false`" if knob.kind is KnobKind.SWITCH else values.bounds_of(knob).replace(" and ", " to ")


def _actions() -> str:
    rows = [
        (action, knob.name, _bounds(knob), knob.about)
        for action in ActionType
        for knob in KNOBS
        if action in knob.actions
    ]
    older = ", ".join(f"`{name}` (`{action}`)" for name, action in sorted(rule_models.ACTION_ALIASES.items()))
    return "\n\n".join(["## Actions", reference_text.ACTIONS, _grouped(rows), f"Older names of actions: {older}."])


def _value(name: str, value: object) -> str:
    if KNOB_BY_NAME[name].kind is KnobKind.BYTES and isinstance(value, int):
        return format_size(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sets(title: str, sets: Mapping[str, NamedSet]) -> str:
    knobs = list(dict.fromkeys(knob for each in sets.values() for knob in each.values))
    rows = [
        (f"`{knob}`", *(_value(knob, each.values[knob]) if knob in each.values else "" for each in sets.values()))
        for knob in knobs
    ]
    about = [(f"`{name}`", each.description) for name, each in sets.items() if each.description]
    table = _table((title, *(f"`{name}`" for name in sets)), rows)
    return f"{table}\n\n{_list(about)}" if about else table


def _named_sets() -> str:
    tables = (_sets(f"`{knob}`", sets) for knob, sets in named_sets().items())
    return "\n\n".join(["## Named sets", reference_text.NAMED_SETS, *tables])


def _builtin() -> str:
    documents = builtin_documents()
    rules = [
        (f"`{rule.id}`", ". ".join(part for part in (rule.name, rule.description) if part))
        for each in documents
        for rule in each.spec.rules
    ]
    templates = [(f"`{t.id}` ({t.category})", t.description) for each in documents for t in each.spec.templates]
    others = [
        (f"{kind} `{each.name}`", each.description)
        for document in documents
        for kind, found in (
            ("framework", document.spec.frameworks),
            ("environment", document.spec.environments),
            ("hardware profile", document.spec.hardware_profiles),
        )
        for each in found
    ]
    return "\n\n".join(
        [
            "## What is built in",
            reference_text.BUILT_IN,
            "Rules:",
            _list(rules),
            "Templates:",
            _list(templates),
            "Environments, hardware profiles, and frameworks:",
            _list(others),
        ]
    )


def _limits() -> str:
    rows = [
        ("document", f"{format_size(tree.MOST_BYTES)} bytes, {tree.MOST_DEPTH} levels, {tree.MOST_NODES:,} values"),
        ("rules, with those of templates", f"{profile_models.MOST_RULES:,}"),
        ("templates, frameworks, environments, hardware profiles", f"{profile_models.MOST_GROUPS} of each"),
        ("templates in use per list", f"{profile_models.MOST_USES}"),
        ("a rule", f"{rule_models.MOST_CONDITIONS} conditions, {rule_models.MOST_ACTIONS} actions"),
        ("values of `in` and `not_in`", f"{values.MOST_IN_LIST}"),
        ("text in a condition", f"{values.MOST_TEXT:,} characters"),
        ("a regular expression or a glob", f"{MOST_PATTERN} characters"),
        ("memory of a regular expression", format_size(MOST_MEMORY)),
    ]
    return "\n\n".join(["## Limits", _list(rows)])


def main(arguments: Sequence[str]) -> None:
    """Write the page into the file that is named."""
    (file,) = arguments
    Path(file).write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Warnings about valid documents: parts that have no effect, or that kubectl reads differently."""

from collections.abc import Iterator, Sequence

from stoker_tuning.documents.builtin_documents import builtin_documents
from stoker_tuning.documents.errors import Problem, quoted, suggestion
from stoker_tuning.documents.profile_models import TuningDocument
from stoker_tuning.documents.reading import read_document
from stoker_tuning.documents.rule_models import TuningRule
from stoker_tuning.documents.tree import Path, Tree
from stoker_tuning.frameworks.builtin_plugins import BUILT_IN
from stoker_tuning.recommend.knobs import REMOVED
from stoker_tuning.vocabulary import ConditionOperator, ConditionScope

_GROUPS = ("templates", "frameworks", "environments", "hardware_profiles")
_POSITIVE = (ConditionOperator.EQUALS, ConditionOperator.IN)


def lint_document(source: bytes | str, plugins: Sequence[TuningDocument] = ()) -> tuple[Problem, ...]:
    """Return the warnings about a document, in its order. Raises DocumentError for an invalid one."""
    document, tree = read_document(source)
    frameworks = _frameworks((*builtin_documents(), *plugins))
    found = [*_truth_words(tree), *_removed_parts(tree), *_framework_profiles(document, tree, frameworks)]
    for path, rule in _rules(document):
        found += _unknown_frameworks(rule, path, tree, frameworks)
    return tuple(sorted(found, key=lambda each: (each.line, each.column)))


def _frameworks(documents: Sequence[TuningDocument]) -> list[str]:
    return sorted({*BUILT_IN, *(each.name for document in documents for each in document.spec.frameworks)})


def _rules(document: TuningDocument) -> Iterator[tuple[Path, TuningRule]]:
    groups: list[tuple[Path, Sequence[TuningRule]]] = [(("spec",), document.spec.rules)]
    for kind in _GROUPS:
        groups += [(("spec", kind, number), each.rules) for number, each in enumerate(getattr(document.spec, kind))]
    for path, rules in groups:
        yield from (((*path, "rules", number), rule) for number, rule in enumerate(rules))


def _removed_parts(tree: Tree) -> Iterator[Problem]:
    for path in tree.places:
        if path[-2:] in REMOVED:
            yield tree.problem(path, f"{path[-1]} was removed and has no effect: delete it")


def _unknown_frameworks(rule: TuningRule, path: Path, tree: Tree, known: Sequence[str]) -> Iterator[Problem]:
    for number, condition in enumerate(rule.conditions):
        if (condition.type, condition.property) != (ConditionScope.WORKLOAD_CONTEXT, "framework"):
            continue
        if condition.operator not in _POSITIVE:
            continue
        values = condition.value if isinstance(condition.value, (list, tuple)) else [condition.value]
        place = (*path, "conditions", number, "value")
        yield from (_framework(tree, place, value, known) for value in values if value not in known)


def _framework_profiles(document: TuningDocument, tree: Tree, known: Sequence[str]) -> Iterator[Problem]:
    for number, each in enumerate(document.spec.frameworks):
        if each.name not in known:
            yield _framework(tree, ("spec", "frameworks", number, "name"), each.name, known)


def _framework(tree: Tree, path: Path, name: object, known: Sequence[str]) -> Problem:
    text = f"no installed plug-in detects the framework {quoted(name)}, so this never matches"
    return tree.problem(path, f"{text}: {suggestion(name, known)}")


def _truth_words(tree: Tree) -> Iterator[Problem]:
    for path in tree.unquoted:
        value = tree.value
        for step in path:
            value = value[step]
        yield tree.problem(path, f'kubectl reads {value} as true or false: quote it, "{value}"')

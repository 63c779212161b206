"""Checks the documents of a file: Stoker's kinds, TuningProfiles, and pod templates of any other kind. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from stoker_api import names
from stoker_api.profiles.tuningprofile import TuningProfile
from stoker_api.schema import open_api_schema
from stoker_cli.output import printable
from stoker_cli.support.validation.kind_rules import KINDS, metadata_problems, rule_problems
from stoker_cli.support.validation.pod_templates import (
    find_templates,
    misplaced_warnings,
    template_problems,
    template_warnings,
)
from stoker_cli.support.validation.schema_check import schema_problems
from stoker_cli.support.validation.yaml_trees import read_trees
from stoker_tuning.documents.assembly import read_profile
from stoker_tuning.documents.errors import DocumentError, Problem, quoted, suggestion
from stoker_tuning.documents.lint import lint_document
from stoker_tuning.documents.tree import Path, Tree, written_path

_CHECKED = (*KINDS, TuningProfile.KIND)
_MOST_NESTED = 10_000  # objects of lists in a file


@dataclass(frozen=True, slots=True)
class DocumentCheck:
    """The result for one document. ``name``: kind and name. ``checked``: False for kinds without Stoker's data."""

    line: int
    name: str
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    checked: bool = True


def check_file(source: bytes, namespace: str = "default") -> list[DocumentCheck]:
    """Check each document of a file. A file that cannot be parsed is one document with the problem.

    ``namespace``: that of documents without one.
    """
    try:
        trees = read_trees(source)
    except DocumentError as error:
        return [DocumentCheck(error.problems[0].line, "document", error.problems)]
    if not trees:
        return [DocumentCheck(1, "document", (Problem(1, 1, "", "is empty: write a document"),))]
    return [_checked(tree, value, path, namespace) for tree in trees for value, path in _objects(tree)]


def _objects(tree: Tree) -> Iterator[tuple[Any, Path]]:
    """Yield the objects of a document: itself, or the items of a List."""
    value = tree.value
    if isinstance(value, Mapping) and value.get("kind") == "List" and isinstance(value.get("items"), list):
        yield from ((item, ("items", number)) for number, item in enumerate(value["items"][:_MOST_NESTED]))
    else:
        yield value, ()


def _checked(tree: Tree, value: Any, path: Path, namespace: str) -> DocumentCheck:
    line = tree.place(path)[0]
    if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
        text = "is not a Kubernetes object: write apiVersion, kind, metadata and spec"
        return DocumentCheck(line, "document", (tree.problem(path, text),))
    metadata = value.get("metadata") if isinstance(value.get("metadata"), Mapping) else {}
    assert isinstance(metadata, Mapping)
    name = f"{value['kind']} {metadata.get('name') or metadata.get('generateName') or ''}".rstrip()
    problems = list(_problems(tree, value, path, str(metadata.get("namespace") or namespace)))
    warnings = list(_warnings(tree, value, path)) if not problems else []
    return DocumentCheck(line, name, _ordered(problems), _ordered(warnings), _is_checked(value, problems, warnings))


def _is_checked(value: Mapping[str, Any], problems: Sequence[Problem], warnings: Sequence[Problem]) -> bool:
    return _is_ours(value) or bool(problems or warnings) or any(found.annotations for found in find_templates(value))


def _ordered(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(dict.fromkeys(problems), key=lambda each: (each.line, each.column)))


def _problems(tree: Tree, value: Mapping[str, Any], path: Path, namespace: str) -> Iterator[Problem]:
    if _is_ours(value):
        yield from _own_problems(tree, value, path)
    for found in find_templates(value, path):
        yield from template_problems(tree, found, namespace)


def _is_ours(value: Mapping[str, Any]) -> bool:
    """Return True for Stoker's kinds, also with a misspelled group. Other systems have a Dataset or TrainingJob too."""
    group, slash, _ = str(value.get("apiVersion", "")).partition("/")
    meant = not slash or bool(get_close_matches(group, [names.GROUP]))
    return group == names.GROUP or (value["kind"] in _CHECKED and meant)


def _own_problems(tree: Tree, value: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    kind = value["kind"]
    if kind not in _CHECKED:
        text = f"{quoted(kind)} is not a kind to write: {suggestion(kind, _CHECKED)}"
        yield tree.problem((*path, "kind"), text)
        return
    first = list(metadata_problems(tree, value, path))
    if kind == TuningProfile.KIND:
        yield from first or _profile_problems(tree, value, path)
        return
    first += _spec_problems(tree, value, path)
    yield from first or rule_problems(tree, value, path)


def _spec_problems(tree: Tree, value: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    """Yield the problems of all fields except the metadata and the status, which people do not write."""
    own = {name: child for name, child in value.items() if name not in ("metadata", "status")}
    yield from schema_problems(tree, own, _schema(str(value["kind"])), path)


@cache
def _schema(kind: str) -> Mapping[str, Any]:
    return open_api_schema(KINDS[kind])


def _profile_problems(tree: Tree, value: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    try:
        read_profile(_profile_text(value))
    except DocumentError as error:
        yield from _placed(tree, path, error.problems)


def _profile_text(value: Mapping[str, Any]) -> str:
    name = (value.get("metadata") or {}).get("name")
    head = {"apiVersion": value.get("apiVersion"), "kind": value["kind"], "metadata": {"name": name}}
    return json.dumps(head | {"spec": value.get("spec")}, default=str)


def _placed(tree: Tree, path: Path, problems: Sequence[Problem]) -> Iterator[Problem]:
    """Give problems of a part of a document their places in the whole document."""
    places = {written_path(known[len(path) :]): known for known in tree.places if known[: len(path)] == path}
    for problem in problems:
        at = problem.path
        while at and at not in places:
            at = at.rpartition(".")[0]
        line, column = tree.place(places.get(at, path))
        yield Problem(line, column, problem.path, problem.message)


def _warnings(tree: Tree, value: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    if value["kind"] == TuningProfile.KIND and _is_ours(value):
        yield from _placed(tree, path, lint_document(_profile_text(value)))
    yield from misplaced_warnings(tree, value, path)
    for found in find_templates(value, path):
        yield from template_warnings(tree, found)


def check_lines(file: str, checks: Sequence[DocumentCheck]) -> Iterator[str]:
    """Yield the results as lines in the format of compilers."""
    name = printable(file)
    for check in checks:
        for kind, problems in (("", check.problems), ("warning: ", check.warnings)):
            for each in problems:
                where = f"{printable(each.path)}: " if each.path else ""
                yield f"{name}:{each.line}:{each.column}: {kind}{where}{printable(each.message)}"
        if not check.problems:
            result = "valid" if check.checked else "nothing of Stoker to check"
            yield f"{name}:{check.line}: {printable(check.name)}: {result}"


def check_wire(file: str, checks: Sequence[DocumentCheck]) -> dict[str, object]:
    """Return the results of a file as JSON."""
    documents = [{"valid": not check.problems} | asdict(check) for check in checks]
    return {"file": file, "valid": not any(check.problems for check in checks), "documents": documents}

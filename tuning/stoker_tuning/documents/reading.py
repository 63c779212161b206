"""The entry point: reads and checks a document; a DocumentError has a place for each problem."""

from functools import lru_cache
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from stoker_tuning.documents.errors import MOST_PROBLEMS, DocumentError, Problem, quoted, suggestion
from stoker_tuning.documents.profile_models import TuningDocument
from stoker_tuning.documents.tree import Path, Tree, read_tree
from stoker_tuning.documents.values import PatternBudget

# Plain sentences for pydantic's most frequent errors.
_SENTENCES = {
    "missing": "is missing: write it",
    "int_type": "is not a whole number",
    "float_type": "is not a number",
    "bool_type": "is not true or false",
    "string_type": "is not text",
    "model_type": "is not a mapping: write name: value below it",
    "model_attributes_type": "is not a mapping: write name: value below it",
    "tuple_type": "is not a list: write - before each item",
    "too_short": "is empty: write one at least",
    "dict_type": "is not a mapping: write name: value below it",
}
_BOUNDS = {
    "le": "is more than {}, which is the most",
    "ge": "is less than {}, which is the least",
    "gt": "has to be more than {}",
    "max_length": "is too long: {} is the most",
}
_BOUND_TYPES = {"less_than_equal", "greater_than_equal", "greater_than", "string_too_long", "too_long"}


def read_document(source: bytes | str) -> tuple[TuningDocument, Tree]:
    """Read and check one document. Raises only DocumentError."""
    tree = read_tree(source)
    try:
        return TuningDocument.model_validate(tree.value, context=PatternBudget()), tree
    except ValidationError as error:
        raise _refused(tree, error.errors(include_url=False)) from error


def _refused(tree: Tree, errors: list[ErrorDetails]) -> DocumentError:
    """Return the error with the first problems in document order: sentences for thousands would take too long.

    A list with invalid items is not reported as too short.
    """
    wrong = {error["loc"][:depth] for error in errors for depth in range(len(error["loc"]))}
    told = [error for error in errors if not (error["type"] == "too_short" and error["loc"] in wrong)]
    placed = sorted(((tree.place(_path(tree, error)), error) for error in told), key=lambda pair: pair[0])
    problems = [_problem(tree, error) for _, error in placed[:MOST_PROBLEMS]]
    return DocumentError(problems, left_out=len(placed) - len(problems))


def _path(tree: Tree, error: ErrorDetails) -> Path:
    """Return the place of a problem; a validator may name the key in the mapping that it checks."""
    path = _written(tree, error["loc"])
    key = error.get("ctx", {}).get("key")
    if key is None:
        return path
    return (*path, int(key)) if key.isdigit() and (*path, int(key)) in tree.places else (*path, key)


def _problem(tree: Tree, error: ErrorDetails) -> Problem:
    path = _path(tree, error)
    if error["type"] == "extra_forbidden":
        known = _fields(tuple(step for step in path[:-1] if isinstance(step, str)))
        return tree.problem(path, f"{quoted(path[-1])} is not known here: {suggestion(path[-1], known)}")
    return tree.problem(path, _sentence(error, error.get("ctx", {})))


def _sentence(error: ErrorDetails, context: dict[str, Any]) -> str:
    if "sentence" in context:
        return str(context["sentence"])
    if error["type"] == "literal_error":
        return f"{quoted(error['input'])} is not {context['expected']}: write that"
    if error["type"] == "string_pattern_mismatch":
        return (
            f"{quoted(error['input'])} is no name: write up to 63 letters, digits, '-', '_' and '.', "
            "with a letter or digit at both ends (metadata.name: lower case)"
        )
    for name, sentence in _BOUNDS.items():
        if name in context and error["type"] in _BOUND_TYPES:
            return sentence.format(context[name])
    return _SENTENCES.get(error["type"], f"cannot be taken: {error['msg']}")


def _written(tree: Tree, found: tuple[int | str, ...]) -> Path:
    """Return the part of pydantic's path that exists in the document, plus one step if something is missing."""
    value = tree.value
    path: Path = ()
    for step in found:
        path = (*path, step)
        there = step in value if isinstance(value, dict) else isinstance(value, list) and step in range(len(value))
        if not there:
            return path
        value = value[step]
    return path


@lru_cache(maxsize=256)
def _fields(path: tuple[str, ...]) -> list[str]:
    """Return the field names of a mapping in the format; ``path``: the names that lead to it."""
    model: type[BaseModel] = TuningDocument
    for step in path:
        by_name = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
        inner = _model_in(by_name.get(step))
        if inner is None:
            return []
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model_in(each)) is not None), None)

"""Which DatasetClass a Dataset has: the one that it names, else the newest default one."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ValidationError

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.datasetclass import DatasetClass
from stoker_api.meta import ObjectMeta
from stoker_api.names import Reason
from stoker_api.times import parse_time

_MOST_NAMES = 10  # classes that a sentence names


@dataclass(frozen=True, slots=True)
class InvalidClass:
    """A DatasetClass that does not parse, with the sentence."""

    metadata: ObjectMeta
    sentence: str

    @property
    def is_default(self) -> bool:
        """Tell whether Datasets that name no class get this one."""
        return self.metadata.annotations.get(names.ANNOTATION_DEFAULT_CLASS) == "true"


@dataclass(frozen=True, slots=True)
class Refused:
    """A Dataset cannot be taken. ``closed``: what nodes have of it is not mounted any more."""

    reason: Reason
    sentence: str
    closed: bool = False


Classes = Mapping[str, DatasetClass | InvalidClass]


def parse_class(raw: Mapping[str, Any]) -> DatasetClass | InvalidClass:
    """Parse a DatasetClass, or what is wrong with it: limits that cannot be read must not look absent."""
    try:
        return DatasetClass.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        sentence = f"{where}: {first['msg'].removeprefix('Value error, ')}"
        return InvalidClass(ObjectMeta.model_validate(raw["metadata"]), sentence)


def class_of(dataset: Dataset, classes: Classes) -> DatasetClass | Refused | None:
    """Return the class of a Dataset; None where it names none and no class is the default."""
    named = dataset.spec.class_name
    namespace = dataset.metadata.namespace
    found = _default(namespace, classes) if named is None else _named(named, namespace, classes)
    if isinstance(found, InvalidClass):
        sentence = f"DatasetClass {found.metadata.name} cannot be read, an administrator has to mend it: "
        return Refused(Reason.CLASS_INVALID, sentence + found.sentence)
    return found


def _named(name: str, namespace: str, classes: Classes) -> DatasetClass | InvalidClass | Refused:
    found = classes.get(name)
    if found is None:
        there = sorted(key for key, one in classes.items() if _admits(one, namespace))
        others = f"; for namespace {namespace} there are: {', '.join(there[:_MOST_NAMES]) or 'none'}"
        sentence = f"DatasetClass {name} does not exist: name another one in spec.className, or none{others}"
        return Refused(Reason.CLASS_NOT_FOUND, sentence)
    if not _admits(found, namespace):
        sentence = (
            f"DatasetClass {name} is not for namespace {namespace}: name another one in spec.className, or have an "
            "administrator add the namespace to its spec.namespaces"
        )
        return Refused(Reason.NOT_ALLOWED_BY_CLASS, sentence)
    return found


def _default(namespace: str, classes: Classes) -> DatasetClass | InvalidClass | Refused | None:
    """Return the newest default class for the namespace, by name where two are as old, as for StorageClasses."""
    defaults = [one for one in classes.values() if one.is_default]
    admitting = [one for one in defaults if _admits(one, namespace)]
    if defaults and not admitting:
        sentence = (
            f"no default DatasetClass is for namespace {namespace}: name one that is in spec.className, or have an "
            "administrator add the namespace to the spec.namespaces of one"
        )
        return Refused(Reason.NOT_ALLOWED_BY_CLASS, sentence)
    return min(admitting, key=_newest_first, default=None)


def _newest_first(one: DatasetClass | InvalidClass) -> tuple[float, str]:
    return -parse_time(one.metadata.creation_timestamp), one.metadata.name


def _admits(one: DatasetClass | InvalidClass, namespace: str) -> bool:
    # Whom one that cannot be read is for is unknown: its limits may be meant for this namespace.
    return isinstance(one, InvalidClass) or any(fnmatchcase(namespace, pattern) for pattern in one.spec.namespaces)

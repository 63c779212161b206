"""Select the DatasetClass of a Dataset, and check the sources that the class allows."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from pydantic import ValidationError

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_source import DatasetSource
from stoker_api.datasets.datasetclass import DatasetClass, DatasetClassSpec
from stoker_api.meta import ObjectMeta
from stoker_api.names import Reason
from stoker_api.times import parse_time

_MOST_NAMES = 10  # classes in a message


@dataclass(frozen=True, slots=True)
class InvalidClass:
    """A DatasetClass that does not parse, with the error message."""

    metadata: ObjectMeta
    sentence: str

    @property
    def is_default(self) -> bool:
        """Return True if Datasets without a class name get this class."""
        return self.metadata.annotations.get(names.ANNOTATION_DEFAULT_CLASS) == "true"


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused Dataset. ``closed``: nodes do not mount their data of it."""

    reason: Reason
    sentence: str
    closed: bool = False


Classes = Mapping[str, DatasetClass | InvalidClass]


def parse_class(raw: Mapping[str, Any]) -> DatasetClass | InvalidClass:
    """Parse a DatasetClass. Return an InvalidClass on failure, because unreadable limits must not look absent."""
    try:
        return DatasetClass.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        sentence = f"{where}: {first['msg'].removeprefix('Value error, ')}"
        return InvalidClass(ObjectMeta.model_validate(raw["metadata"]), sentence)


def class_of(dataset: Dataset, classes: Classes) -> DatasetClass | Refused | None:
    """Return the class of a Dataset. Return None if it names none and there is no default class."""
    named = dataset.spec.class_name
    namespace = dataset.metadata.namespace
    found = _default(namespace, classes) if named is None else _named(named, namespace, classes)
    if isinstance(found, InvalidClass):
        sentence = f"DatasetClass {found.metadata.name} is invalid, and an administrator must correct it: "
        return Refused(Reason.CLASS_INVALID, sentence + found.sentence)
    return found


def _named(name: str, namespace: str, classes: Classes) -> DatasetClass | InvalidClass | Refused:
    found = classes.get(name)
    if found is None:
        there = sorted(key for key, one in classes.items() if _admits(one, namespace))
        others = f"; for namespace {namespace} there are: {', '.join(there[:_MOST_NAMES]) or 'none'}"
        sentence = f"DatasetClass {name} does not exist: set spec.className to another class, or leave it out{others}"
        return Refused(Reason.CLASS_NOT_FOUND, sentence)
    if not _admits(found, namespace):
        sentence = (
            f"DatasetClass {name} does not allow namespace {namespace}: set spec.className to another class, or ask "
            "an administrator to add the namespace to its spec.namespaces"
        )
        return Refused(Reason.NOT_ALLOWED_BY_CLASS, sentence)
    return found


def _default(namespace: str, classes: Classes) -> DatasetClass | InvalidClass | Refused | None:
    """Return the newest default class that admits the namespace. The name breaks ties, as for StorageClasses."""
    defaults = [one for one in classes.values() if one.is_default]
    admitting = [one for one in defaults if _admits(one, namespace)]
    if defaults and not admitting:
        sentence = (
            f"no default DatasetClass allows namespace {namespace}: set spec.className, or ask an administrator to "
            "add the namespace to spec.namespaces of a class"
        )
        return Refused(Reason.NOT_ALLOWED_BY_CLASS, sentence)
    return min(admitting, key=_newest_first, default=None)


def _newest_first(one: DatasetClass | InvalidClass) -> tuple[float, str]:
    return -parse_time(one.metadata.creation_timestamp), one.metadata.name


def _admits(one: DatasetClass | InvalidClass, namespace: str) -> bool:
    # An unreadable class admits all namespaces: its limits may be meant for this one.
    return isinstance(one, InvalidClass) or any(fnmatchcase(namespace, pattern) for pattern in one.spec.namespaces)


_PORTS = {"http": 80, "https": 443}
_SHOWN = 5  # endpoints or folders in a message


def source_refusal(source: DatasetSource, name: str, spec: DatasetClassSpec) -> str | None:
    """Return why the class refuses the source, or None."""
    scheme, _, rest = source.uri.partition("://")
    if scheme == "file":
        folder = unquote(rest)  # decoded as on the nodes
        if spec.host_folders is None or any(_beneath(folder, one) for one in spec.host_folders):
            return None
        what, field, allowed = f"source.uri {source.uri}", "hostFolders", spec.host_folders
    else:
        endpoint = source.endpoint or f"https://s3.{source.region}.amazonaws.com"
        if spec.endpoints is None or any(endpoint_matches(endpoint, one) for one in spec.endpoints):
            return None
        what, field, allowed = f"source.endpoint {endpoint}", "endpoints", spec.endpoints
    return (
        f"{what} is not allowed: {allowed_by(name, listed(allowed))}; write one of these, name another class in "
        f"spec.className, or ask an administrator to add it to the class's spec.{field}"
    )


def _beneath(path: str, folder: str) -> bool:
    pure = PurePosixPath(path)
    return ".." not in pure.parts and pure.is_relative_to(folder)


def endpoint_matches(endpoint: str, pattern: str) -> bool:
    """Return True if an endpoint matches a pattern, in which ``*`` stands for one DNS label.

    Scheme, host and port must be equal. The default port is the scheme's.
    """
    asked, allowed = _server(endpoint), _server(pattern)
    if asked is None or allowed is None or (asked[0], asked[2]) != (allowed[0], allowed[2]):
        return False
    labels, wanted = asked[1].split("."), allowed[1].split(".")
    return len(labels) == len(wanted) and all(one in ("*", label) for label, one in zip(labels, wanted, strict=True))


def _server(url: str) -> tuple[str, str, int] | None:
    """Return scheme, lowercase host and port. Return None if the URL names no server."""
    match = re.fullmatch(r"(https?)://(\[[^\]]+\]|[^:/\[\]]+)(?::([0-9]{1,5}))?/?", url)
    if match is None:
        return None
    scheme, host, port = match.groups()
    return scheme, host.lower(), int(port) if port else _PORTS[scheme]


def allowed_by(name: str, what: str) -> str:
    """Return a message about the class's limit. An empty name means no class."""
    return f"DatasetClass {name} allows {what}" if name else f"without a DatasetClass, {what} is allowed"


def listed(values: Iterable[str]) -> str:
    """Join the first few values."""
    shown = [str(value) for value in values]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more or "none"

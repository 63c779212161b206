"""Rules about fields of Stoker's kinds that types do not express: the CEL rules of the CRDs. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from stoker_api import names
from stoker_api.datasets.dataset import MOST_REPLICAS, Dataset
from stoker_api.datasets.dataset_source import source_problem
from stoker_api.datasets.datasetclass import DatasetClass
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.meta import DNS_SUBDOMAIN_PATTERN, Resource, parse_duration
from stoker_cli.support.validation.schema_check import unknown_field
from stoker_tuning.documents.errors import Problem
from stoker_tuning.documents.tree import Path, Tree

KINDS: Mapping[str, type[Resource]] = {kind.KIND: kind for kind in (Dataset, TrainingJob, DatasetClass)}
_LEAST_REFRESH = 10.0  # seconds
_MOST_NAME, _MOST_HOST = 253, 63
_SHARE = re.compile(r"([1-9][0-9]?|100)%")
_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_Rule = tuple[Path, str]


def rule_problems(tree: Tree, value: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    """Yield the problems of a Dataset, TrainingJob or DatasetClass whose types are right."""
    kind = KINDS[str(value["kind"])]
    own = [*_name_rules(value), *_RULES[kind](value.get("spec") or {}, value)]
    for place, message in own:
        yield tree.problem((*path, *place), message)
    if own:
        return  # the model repeats some of them
    try:
        kind.model_validate({**value, "metadata": {"name": "name", **(value.get("metadata") or {})}, "status": {}})
    except ValidationError as error:
        for wrong in error.errors(include_url=False):
            yield tree.problem((*path, *wrong["loc"]), str(wrong["msg"]).removeprefix("Value error, "))


def _name_rules(value: Mapping[str, Any]) -> Iterator[_Rule]:
    name = (value.get("metadata") or {}).get("name")
    if not isinstance(name, str):
        return  # ``metadata_problems`` reports it
    if len(name) > _MOST_NAME or re.fullmatch(DNS_SUBDOMAIN_PATTERN, name) is None:
        yield ("metadata", "name"), f"must have at most {_MOST_NAME} characters of a-z, 0-9, '-' and '.'"


def _dataset_rules(spec: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[_Rule]:
    source, cache = spec.get("source") or {}, spec.get("cache") or {}
    problem = source_problem(str(source.get("uri", "")))
    if problem is not None:
        yield ("spec", "source", "uri"), problem[1]
    credentials = source.get("credentials") or {}
    if credentials.get("secretRef") and credentials.get("serviceAccount"):
        yield ("spec", "source", "credentials"), "takes secretRef or serviceAccount, not both"
    for number, toleration in enumerate(cache.get("tolerations") or ()):
        if _is_wrong(toleration):
            text = "a toleration without key must have the operator Exists, and one with Exists has no value"
            yield ("spec", "cache", "tolerations", number), text
    yield from _replica_rules(cache.get("replicas"), ("spec", "cache", "replicas"), share=True)
    yield from _deadline_rules((spec.get("warm") or {}).get("deadline"))
    interval = (spec.get("refresh") or {}).get("interval")
    if interval is not None and _seconds(interval) < _LEAST_REFRESH:
        yield ("spec", "refresh", "interval"), "must be 10s or more"


def _replica_rules(replicas: Any, place: Path, *, share: bool) -> Iterator[_Rule]:
    in_bounds = isinstance(replicas, int) and 0 <= replicas <= MOST_REPLICAS
    is_share = share and isinstance(replicas, str) and _SHARE.fullmatch(replicas) is not None
    if replicas is not None and replicas != "all" and not in_bounds and not is_share:
        more = ", or a share of the nodes, 1% to 100%" if share else ""
        yield place, f"must be 0 to {MOST_REPLICAS}, or 'all'{more}"


def _deadline_rules(deadline: Mapping[str, Any] | None) -> Iterator[_Rule]:
    if deadline is None:
        return
    place, daily = ("spec", "warm", "deadline"), deadline.get("daily")
    if (deadline.get("at") is None) is (daily is None):
        yield place, "takes one of at and daily"
    elif deadline.get("timeZone") is not None and daily is None:
        yield (*place, "timeZone"), "is for daily"


def _is_wrong(toleration: Mapping[str, Any]) -> bool:
    if toleration.get("operator") == "Exists":
        return bool(toleration.get("value"))
    return toleration.get("key") is None


def _seconds(duration: str) -> float:
    try:
        return parse_duration(duration)
    except ValueError:
        return _LEAST_REFRESH  # the model reports it


def _job_rules(spec: Mapping[str, Any], value: Mapping[str, Any]) -> Iterator[_Rule]:
    name = str((value.get("metadata") or {}).get("name") or "")
    if name and _SERVICE_NAME.fullmatch(name) is None:
        yield ("metadata", "name"), "must begin with a letter and have no dots, since its Service has the same name"
    if len(name) + len(str(int(spec.get("workers") or 1) - 1)) >= _MOST_HOST:
        yield ("metadata", "name"), f"is too long: each worker's host is NAME-INDEX, of at most {_MOST_HOST} characters"
    paths: Sequence[Any] = [each.get("mountPath") for each in spec.get("datasets") or ()]
    for number, mounted in enumerate(paths):
        if mounted in paths[:number]:
            yield ("spec", "datasets", number, "mountPath"), "another dataset has this mountPath: give each its own"


def _class_rules(spec: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[_Rule]:
    priority, warm = spec.get("priority") or {}, spec.get("warm") or {}
    yield from _replica_rules(spec.get("maxReplicas"), ("spec", "maxReplicas"), share=False)
    default, most = priority.get("default"), priority.get("max")
    if default is not None and most is not None and default > most:
        yield ("spec", "priority", "default"), "must not be above priority.max"
    policies = warm.get("policies")
    if warm.get("default") is not None and policies is not None and warm["default"] not in policies:
        yield ("spec", "warm", "default"), "must be one of warm.policies"


_RULES: Mapping[type[Resource], Callable[[Mapping[str, Any], Mapping[str, Any]], Iterator[_Rule]]] = {
    Dataset: _dataset_rules,
    TrainingJob: _job_rules,
    DatasetClass: _class_rules,
}
_METADATA = (
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)


def metadata_problems(tree: Tree, value: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    """Yield the problems of apiVersion and metadata of one of Stoker's objects."""
    if value.get("apiVersion") != names.API_VERSION:
        yield tree.problem((*path, "apiVersion"), f"is not {names.API_VERSION}: write that")
    metadata = value.get("metadata")
    if not isinstance(metadata, Mapping):
        yield tree.problem((*path, "metadata"), "is missing: write metadata with a name")
        return
    if not isinstance(metadata.get("name"), str) and not isinstance(metadata.get("generateName"), str):
        yield tree.problem((*path, "metadata"), "has no name: write metadata.name, as text")
    for name in metadata:
        if name not in _METADATA:
            yield tree.problem((*path, "metadata", name), unknown_field(name, list(_METADATA)))
    for name in ("labels", "annotations"):
        for key, text in (metadata.get(name) or {}).items() if isinstance(metadata.get(name) or {}, Mapping) else ():
            if not isinstance(text, str):
                yield tree.problem((*path, "metadata", name, key), "is not text: quote it")

"""Whether a Dataset or TrainingJob makes sense: the CRD's rules, for objects older than the rules, with a sentence."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from stoker_api.dataset import Dataset
from stoker_api.dataset_status import DatasetStatus
from stoker_api.meta import ObjectMeta
from stoker_api.names import Reason
from stoker_api.trainingjob import TrainingJob, TrainingJobStatus
from stoker_operator.core.views import InvalidDataset, InvalidTrainingJob

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def parse_dataset(raw: Mapping[str, Any]) -> Dataset | InvalidDataset:
    """Parse the Dataset, or what is wrong with it."""
    try:
        dataset = Dataset.model_validate(raw)
    except ValidationError as error:
        sentence = _sentence(error)
    else:
        problem = source_problem(dataset.spec.source.uri)
        if problem is None:
            return dataset
        sentence = problem[1]
    try:
        status = DatasetStatus.model_validate(raw.get("status") or {})
    except ValidationError:
        status = DatasetStatus()
    return InvalidDataset(ObjectMeta.model_validate(raw["metadata"]), sentence, status)


def parse_training_job(raw: Mapping[str, Any]) -> TrainingJob | InvalidTrainingJob:
    """Parse the TrainingJob, or what is wrong with it."""
    try:
        return TrainingJob.model_validate(raw)
    except ValidationError as error:
        sentence = _sentence(error)
    try:
        status = TrainingJobStatus.model_validate(raw.get("status") or {})
    except ValidationError:
        status = TrainingJobStatus()
    return InvalidTrainingJob(ObjectMeta.model_validate(raw["metadata"]), sentence, status)


def source_problem(uri: str) -> tuple[Reason, str] | None:
    """Return what is wrong with a source's URI, or None."""
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        return Reason.MALFORMED_URI, f"source.uri {uri} cannot be read: {error}"
    if parts.scheme not in ("s3", "file"):
        return (
            Reason.UNSUPPORTED_SCHEME,
            f"source.uri {uri} is not supported: write s3://bucket/prefix/ or file:///folder",
        )
    if parts.scheme == "s3" and not _BUCKET.fullmatch(parts.netloc):
        return Reason.MALFORMED_URI, (
            f"the bucket {parts.netloc!r} in source.uri must have 3 to 63 characters of a-z, 0-9, '.' and '-', "
            "and begin and end with a letter or digit"
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        return Reason.MALFORMED_URI, f"source.uri {uri} must have three slashes: file:///folder"
    if ".." in parts.path.split("/"):
        return Reason.MALFORMED_URI, f"source.uri {uri} must not contain '..'"
    return None


def _sentence(error: ValidationError) -> str:
    return "; ".join(_plain(detail["loc"], detail["msg"]) for detail in error.errors(include_url=False))


def _plain(location: tuple[int | str, ...], message: str) -> str:
    where = ".".join(str(part) for part in location)
    return f"{where}: {message.removeprefix('Value error, ')}"

"""Datasets and TrainingJobs that the CRD's rules accept, with the limits of their classes applied."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_source import source_problem
from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_api.jobs.trainingjob import TrainingJob, TrainingJobStatus
from stoker_api.meta import ObjectMeta
from stoker_api.names import Reason
from stoker_api.tolerant import Place, read_tolerantly
from stoker_operator.core.classes.class_limits import ClassTerms, Limited, apply_class
from stoker_operator.core.classes.dataset_classes import Classes, Refused, class_of
from stoker_operator.core.views.cluster import InvalidDataset, InvalidTrainingJob


@dataclass(frozen=True, slots=True)
class Admitted:
    """All Datasets by key: accepted ones with the terms of their classes, and rejected ones."""

    datasets: Mapping[str, Dataset]
    invalid: Mapping[str, InvalidDataset]
    terms: Mapping[str, ClassTerms]


def admit(dataset: Dataset, classes: Classes) -> Limited | InvalidDataset:
    """Apply the class to a Dataset. Return an InvalidDataset with the reason if the class refuses it.

    A Dataset in deletion is always accepted, so that its deletion can finish.
    """
    try:
        found = class_of(dataset, classes)
        taken = found if isinstance(found, Refused) else apply_class(dataset, found)
    except Exception as error:  # noqa: BLE001 -- the boundary of an object: one must not stop the pass of all
        taken = Refused(Reason.INTERNAL_ERROR, f"internal error, please report it: {error!r}")
    if isinstance(taken, Refused) and dataset.metadata.deletion_timestamp:
        taken = apply_class(dataset, None)
    if isinstance(taken, Limited):
        return taken
    return InvalidDataset(dataset.metadata, taken.sentence, dataset.status, taken.reason, taken.closed)


class AdmissionMemory:
    """A cache of each Dataset's result. A pass finds nearly all Datasets and classes unchanged."""

    def __init__(self) -> None:
        self._classes: Classes = {}
        self._classes_are: Classes = self._classes  # the mapping that was read last
        self._known: Final[dict[str, tuple[Dataset, Limited | InvalidDataset]]] = {}
        self._last: tuple[Mapping[str, Dataset | InvalidDataset], Classes, Admitted] | None = None

    def _take_classes(self, classes: Classes) -> None:
        if self._classes_are is not classes and not _same(classes, self._classes):
            self._known.clear()
            self._classes = dict(classes)
        self._classes_are = classes

    def admit_all(self, datasets: Mapping[str, Dataset | InvalidDataset], classes: Classes) -> Admitted:
        """Admit all Datasets. Return the same object for the same mappings."""
        last = self._last
        if last is not None and last[0] is datasets and last[1] is classes:
            return last[2]
        self._take_classes(classes)
        for key in self._known.keys() - datasets.keys():
            del self._known[key]
        taken = {key: self._admit(key, one) for key, one in datasets.items()}
        limited = {key: one for key, one in taken.items() if isinstance(one, Limited)}
        admitted = Admitted(
            datasets={key: one.dataset for key, one in limited.items()},
            invalid={key: one for key, one in taken.items() if isinstance(one, InvalidDataset)},
            terms={key: one.terms for key, one in limited.items()},
        )
        self._last = (datasets, classes, admitted)
        return admitted

    def _admit(self, key: str, dataset: Dataset | InvalidDataset) -> Limited | InvalidDataset:
        if isinstance(dataset, InvalidDataset):
            return dataset
        known = self._known.get(key)
        if known is None or known[0] is not dataset:
            known = self._known[key] = (dataset, admit(dataset, self._classes))
        return known[1]


def _same(one: Classes, other: Classes) -> bool:
    return one.keys() == other.keys() and all(other[name] is found for name, found in one.items())


def parse_dataset(raw: Mapping[str, Any]) -> Dataset | InvalidDataset:
    """Parse the Dataset. Return an InvalidDataset with the reason if that fails."""
    try:
        dataset, _ = read_tolerantly(Dataset, raw, _in_status)
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
    """Parse the TrainingJob. Return an InvalidTrainingJob with the reason if that fails."""
    try:
        return read_tolerantly(TrainingJob, raw, _in_status)[0]
    except ValidationError as error:
        sentence = _sentence(error)
    try:
        status = TrainingJobStatus.model_validate(raw.get("status") or {})
    except ValidationError:
        status = TrainingJobStatus()
    return InvalidTrainingJob(ObjectMeta.model_validate(raw["metadata"]), sentence, status)


def _in_status(place: Place) -> Place | None:
    """Skip status fields of a later release. A spec must be readable."""
    return place if place[:1] == ("status",) else None


def _sentence(error: ValidationError) -> str:
    return "; ".join(_plain(detail["loc"], detail["msg"]) for detail in error.errors(include_url=False))


def _plain(location: tuple[int | str, ...], message: str) -> str:
    where = ".".join(str(part) for part in location)
    return f"{where}: {message.removeprefix('Value error, ')}"

"""The Datasets as their classes let them be: what every decision about them is taken from."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Final

from stoker_api.dataset import Dataset
from stoker_api.names import Reason
from stoker_operator.core.class_limits import ClassTerms, Limited, apply_class
from stoker_operator.core.dataset_classes import Classes, Refused, class_of
from stoker_operator.core.views import InvalidDataset


@dataclass(frozen=True, slots=True)
class Admitted:
    """All Datasets by key: those that are taken, with what is to be known of their classes, and those that are not."""

    datasets: Mapping[str, Dataset]
    invalid: Mapping[str, InvalidDataset]
    terms: Mapping[str, ClassTerms]


def admit(dataset: Dataset, classes: Classes) -> Limited | InvalidDataset:
    """Return the Dataset as its class lets it be, or why it is not taken.

    One that is being deleted is taken whatever its class says: it must be able to go.
    """
    try:
        found = class_of(dataset, classes)
        taken = found if isinstance(found, Refused) else apply_class(dataset, found)
    except Exception as error:  # noqa: BLE001 -- the boundary of an object: one must not stop the pass of all
        taken = Refused(Reason.INTERNAL_ERROR, f"its class cannot be worked out, please report this: {error!r}")
    if isinstance(taken, Refused) and dataset.metadata.deletion_timestamp:
        taken = apply_class(dataset, None)
    if isinstance(taken, Limited):
        return taken
    return InvalidDataset(dataset.metadata, taken.sentence, dataset.status, taken.reason, taken.closed)


class AdmissionMemory:
    """A memory of what was made of each Dataset, since a pass finds nearly all of them and the classes unchanged."""

    def __init__(self) -> None:
        self._classes: Classes = {}
        self._classes_are: Classes = self._classes  # the mapping that they were taken from
        self._known: Final[dict[str, tuple[Dataset, Limited | InvalidDataset]]] = {}
        self._last: tuple[Mapping[str, Dataset | InvalidDataset], Classes, Admitted] | None = None

    def prepare(
        self, datasets: Mapping[str, Dataset | InvalidDataset], classes: Classes
    ) -> Generator[None, None, None]:
        """Do in steps what ``admit_all`` would do in one."""
        if self._last is not None and self._last[0] is datasets and self._last[1] is classes:
            return
        self._take_classes(classes)
        for key, one in datasets.items():
            if self._classes_are is not classes:
                return  # others came meanwhile
            self._admit(key, one)
            yield

    def _take_classes(self, classes: Classes) -> None:
        if self._classes_are is not classes and not _same(classes, self._classes):
            self._known.clear()
            self._classes = dict(classes)
        self._classes_are = classes

    def admit_all(self, datasets: Mapping[str, Dataset | InvalidDataset], classes: Classes) -> Admitted:
        """Admit all Datasets; gives the same object for the same mappings."""
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

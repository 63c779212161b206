"""All Datasets after their classes apply."""

from unittest.mock import patch

from stoker_api.datasets.dataset import Dataset
from stoker_api.names import Reason
from stoker_operator.core.classes.dataset_classes import Classes, class_of
from stoker_operator.core.plans import admission
from stoker_operator.core.plans.admission import AdmissionMemory
from stoker_operator.core.views.cluster import InvalidDataset
from tests.unit.stoker_operator.builders import make_class, make_dataset

LOW = {"low": make_class("low", priority={"max": 1}, default=True)}
HIGH = {"high": make_class("high", priority={"max": 100}, default=True)}


def priority(memory: AdmissionMemory, dataset: Dataset, classes: Classes) -> int:
    return memory.admit_all({dataset.key: dataset}, classes).datasets[dataset.key].spec.warm.priority


def test_a_class_that_changed_counts_at_once() -> None:
    memory, dataset = AdmissionMemory(), make_dataset(warm={"priority": 50})
    assert [priority(memory, dataset, one) for one in (LOW, HIGH, {}, LOW)] == [1, 50, 0, 1]


def test_a_dataset_that_changed_counts_at_once() -> None:
    memory = AdmissionMemory()
    asked = [make_dataset(warm={"priority": one}) for one in (5, 7)]
    assert [priority(memory, one, HIGH) for one in asked] == [5, 7]


def test_what_did_not_change_is_not_worked_out_again() -> None:
    memory, dataset = AdmissionMemory(), make_dataset(warm={"priority": 50})
    first = memory.admit_all({dataset.key: dataset}, LOW).datasets[dataset.key]
    assert memory.admit_all({dataset.key: dataset}, dict(LOW)).datasets[dataset.key] is first


def test_one_that_is_being_deleted_needs_no_class() -> None:
    leaving = make_dataset(className="gone", deletion_timestamp="2026-11-22T10:00:00Z")
    assert leaving.key in AdmissionMemory().admit_all({leaving.key: leaving}, {}).datasets


def test_one_that_cannot_be_worked_out_leaves_the_others_theirs() -> None:
    good, bad = make_dataset("good"), make_dataset("bad")

    def fail(dataset: Dataset, classes: Classes) -> object:
        if dataset is bad:
            raise RuntimeError("no")
        return class_of(dataset, classes)

    with patch.object(admission, "class_of", fail):
        admitted = AdmissionMemory().admit_all({one.key: one for one in (good, bad)}, {})
    assert (list(admitted.datasets), admitted.invalid[bad.key].reason) == ([good.key], Reason.INTERNAL_ERROR)


def test_what_does_not_parse_stays_that() -> None:
    bad = InvalidDataset(make_dataset().metadata, "no", make_dataset().status)
    assert AdmissionMemory().admit_all({"vision/imagenet": bad}, LOW).invalid == {"vision/imagenet": bad}

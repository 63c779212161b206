"""The version that the workers of a TrainingJob read, and when it is fixed."""

from typing import Any

import pytest

from stoker_api.datasets.dataset import Dataset
from stoker_api.names import Reason
from stoker_operator.core.fitting.pod_demand import Unmet
from stoker_operator.core.jobs.job_facts import settle_versions
from tests.support.cases import cases
from tests.unit.stoker_operator.clusters import VERSION, cluster, dataset
from tests.unit.stoker_operator.training import training_job

OLD = "0" * 64


def in_use(*versions: str, **status: Any) -> Dataset:
    known = dataset()
    return known.model_copy(update={"status": known.status.model_copy(update={"versions_in_use": versions} | status)})


def settled(*parts: Dataset, status: dict[str, Any] | None = None, **spec: Any) -> list[str] | Unmet:
    found = settle_versions(training_job(status=status, **spec), cluster(*parts))
    return found if isinstance(found, Unmet) else [row.version for row in found]


def named(version: str) -> dict[str, Any]:
    return {"datasets": [{"name": "imagenet", "mountPath": "/data", "version": version}]}


def recorded(version: str) -> dict[str, Any]:
    return {"datasets": [{"namespace": "vision", "name": "imagenet", "version": version}]}


@cases(
    "known, job, version",
    the_current_one_when_the_job_is_made=(dataset(), {}, VERSION),
    the_one_that_was_settled=(dataset(), {"status": recorded(OLD)}, OLD),
    an_older_one_by_its_first_digits=(in_use(OLD), named(OLD[:12]), OLD),
    another_one_of_the_spec_in_place_of_what_was_settled=(
        in_use(OLD),
        {"status": recorded(OLD)} | named(VERSION[:12]),
        VERSION,
    ),
)
def test_workers_read(known: Dataset, job: dict[str, Any], version: str) -> None:
    assert settled(known, **job) == [version]


def test_a_version_that_is_not_kept_is_told() -> None:
    found = settled(in_use(OLD), **named("3" * 12))
    assert isinstance(found, Unmet)
    assert (found.reason, "has no version 333333333333" in found.sentence) == (Reason.VERSION_NOT_FOUND, True)


@pytest.mark.parametrize("phase", [None, "Listing"])
def test_a_listing_that_is_under_way_is_awaited(phase: str | None) -> None:
    waiting = dataset(listed=False)
    waiting = Dataset.model_validate(waiting.wire() | {"status": {"phase": phase}})
    found = settled(waiting)
    assert isinstance(found, Unmet)
    assert found.reason is Reason.LISTING


@pytest.mark.parametrize("phase", ["Pending", "Failed", "Degraded"])
def test_a_listing_that_nobody_makes_is_not_awaited_since_workers_show_the_demand_for_a_node(phase: str) -> None:
    assert settled(Dataset.model_validate(dataset(listed=False).wire() | {"status": {"phase": phase}})) == []


def test_a_dataset_at_two_versions_is_refused() -> None:
    rows = [{"name": "imagenet", "mountPath": f"/{version[:1]}", "version": version} for version in (OLD, VERSION)]
    found = settled(in_use(OLD), datasets=rows)
    assert isinstance(found, Unmet)
    assert "two versions" in found.sentence

"""Queries to the API server for Datasets that the catalog lacks."""

import asyncio
from typing import Any

import pytest

from stoker_kube.api import Listing
from stoker_kube.resources import DATASETS
from stoker_operator.core.views.catalog import CatalogEntry
from stoker_operator.webhook.late_datasets import AT_ONCE, SECONDS, LateDatasets
from tests.fakes.kube import FakeKube
from tests.support.virtual_time import run_virtual


class Silent(FakeKube):
    """An API server that counts lists and never answers them."""

    asked = 0

    async def list(self, *args: Any, **kwargs: Any) -> Listing:
        self.asked += 1
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_dataset_is_found_as_the_catalog_would_have_it() -> None:
    kube = FakeKube()
    meta = {"name": "late", "namespace": "vision"}
    spec = {"source": {"uri": "s3://bucket/"}, "access": {"namespaces": ["team"]}}
    await kube.create(DATASETS, {"metadata": meta, "spec": spec})
    assert await LateDatasets(kube).find("vision/late") == CatalogEntry("vision", "late", allowed_namespaces=("team",))
    assert await LateDatasets(kube).find("vision/none") is None


@pytest.mark.expected_logs("could not be looked up")
def test_looks_are_bounded_in_time_and_number() -> None:
    async def main() -> None:
        kube = Silent()
        late = LateDatasets(kube)
        found = await asyncio.gather(*(late.find(f"vision/{number}") for number in range(AT_ONCE + 2)))
        assert found == [None] * (AT_ONCE + 2)
        assert (kube.asked, asyncio.get_running_loop().time()) == (AT_ONCE, SECONDS)

    run_virtual(main())

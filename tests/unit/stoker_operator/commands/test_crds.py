"""Installation of CRDs, against the in-memory API server."""

import pytest

from stoker_kube.resources import CRDS
from stoker_operator.commands.crds import apply_crds
from stoker_operator.errors import NotEstablishedError
from tests.fakes.kube import FakeKube

ESTABLISHED = {"status": {"conditions": [{"type": "Established", "status": "True"}]}}


async def test_every_crd_is_applied_and_told() -> None:
    kube, told = FakeKube(), list[str]()
    for plural in ("datasets", "nodecaches", "trainingjobs", "datasetclasses", "tuningprofiles"):
        await kube.create(CRDS, {"metadata": {"name": f"{plural}.stoker.dev"}} | ESTABLISHED)
    await apply_crds(kube, 5.0, told.append)
    assert sorted(told) == [
        "datasetclasses.stoker.dev is up to date",
        "datasets.stoker.dev is up to date",
        "nodecaches.stoker.dev is up to date",
        "trainingjobs.stoker.dev is up to date",
        "tuningprofiles.stoker.dev is up to date",
    ]
    assert all("versions" in item["spec"] for item in kube.objects(CRDS))


async def test_a_crd_that_is_not_taken_into_use_is_named() -> None:
    with pytest.raises(NotEstablishedError, match=r"datasets\.stoker\.dev was applied, but not established"):
        await apply_crds(FakeKube(), 0.01, print)

"""The APIService of figures: created for the chart's role, kept correct, and removed by the last replica."""

from typing import Any

import pytest

from stoker_kube.errors import Forbidden, NotFound
from stoker_kube.resources import API_SERVICES, CLUSTER_ROLES, PODS
from stoker_operator.figures.registration import NAME, FiguresRegistration
from stoker_operator.figures.server import FiguresServer
from stoker_operator.figures.service import FiguresService
from tests.fakes.kube import FakeKube
from tests.support.cases import cases
from tests.support.present import present

OPERATOR = {"app.kubernetes.io/name": "stoker", "app.kubernetes.io/component": "operator"}


async def registration(*, role: bool = True) -> tuple[FakeKube, FiguresRegistration]:
    kube = FakeKube()
    if role:
        await kube.create(CLUSTER_ROLES, {"metadata": {"name": "stoker-figures"}, "rules": []})
    return kube, FiguresRegistration(kube, "stoker-system", "operator-0")


async def registered(kube: FakeKube) -> dict[str, Any] | None:
    try:
        return await kube.get(API_SERVICES, NAME)
    except NotFound:
        return None


async def test_it_is_made_once_and_corrected_when_the_authorities_change() -> None:
    kube, figures = await registration()
    assert [await figures.publish(bundle) for bundle in (b"one", b"one", b"two", b"two")] == [True, False, True, False]
    found = present(await registered(kube))
    assert (found["spec"]["caBundle"], found["spec"]["service"]["port"]) == ("dHdv", 8443)


async def test_without_the_charts_role_nothing_is_registered() -> None:
    kube, figures = await registration(role=False)
    assert not await figures.publish(b"one")
    assert await registered(kube) is None


async def test_cert_manager_puts_the_authorities_in() -> None:
    kube, figures = await registration()
    await figures.publish(b"")
    found = present(await registered(kube))
    assert "caBundle" not in found["spec"]
    assert found["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "stoker-system/stoker-webhook"}


@cases("name, ready, stays", ("operator-0", True, False), ("operator-1", True, True), ("operator-1", False, False))
async def test_the_last_replica_that_serves_takes_it_away(name: str, ready: bool, stays: bool) -> None:
    kube, figures = await registration()
    await figures.publish(b"one")
    await kube.create(PODS, {"metadata": {"name": name, "labels": OPERATOR}, "spec": {}}, "stoker-system")
    condition = {"type": "Ready", "status": str(ready)}
    await kube.patch(PODS, name, {"status": {"conditions": [condition]}}, "stoker-system", subresource="status")
    await figures.withdraw()
    assert (await registered(kube) is not None) is stays


@pytest.mark.expected_logs("APIService of figures could not be written")
async def test_a_registration_that_is_refused_leaves_the_webhook_its_certificate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kube, _ = await registration()
    service = FiguresService(kube, "stoker-system", "operator-0", "127.0.0.1", 0)
    monkeypatch.setattr(FiguresServer, "serves", True)
    kube.refuse("create", API_SERVICES, Forbidden(403, "Forbidden", "the policy says no"))
    assert not await service.certified.publish(b"one")

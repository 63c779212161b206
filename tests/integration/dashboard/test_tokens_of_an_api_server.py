"""The page in the cluster with a real API server: tokens, rights and changes are its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from stoker_cli.dashboard.cluster.gate import UserGate
from stoker_cli.dashboard.cluster.sign_in import SignInHandlers
from stoker_cli.dashboard.cluster.user_sessions import UserSessions
from stoker_kube.client import KubeClient
from stoker_kube.resources import DATASETS
from tests.support.apiserver import ApiServer
from tests.support.waiting import SECONDS_OF_PROCESSES, eventually_async

ORIGIN = "https://stoker.example"
READ = "--verb=get,list"


@pytest.fixture
async def gate(apiserver: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UserGate]:
    """Run the page as its pod does: with the API server's address and CA, and no token."""
    host, port = apiserver.url.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    (tmp_path / "ca.crt").write_bytes(apiserver.authority.read_bytes())
    async with KubeClient.anonymous(tmp_path) as client:
        sessions = UserSessions()
        yield UserGate(sessions, SignInHandlers(client.as_bearer, sessions))
        sessions.end_all()


@pytest.fixture
def token(apiserver: ApiServer, namespace: str) -> str:
    """Make a ServiceAccount that reads Datasets of its namespace, and return a token."""
    kubectl = ("--namespace", namespace)
    apiserver.kubectl("create", "serviceaccount", "viewer", *kubectl)
    apiserver.kubectl("create", "role", "viewer", READ, "--resource=datasets.stoker.dev", *kubectl)
    apiserver.kubectl(
        "create", "rolebinding", "viewer", "--role=viewer", f"--serviceaccount={namespace}:viewer", *kubectl
    )
    for place in (namespace, "default"):
        source = {"uri": "s3://bucket/data"}
        apiserver.create(DATASETS, f"of-{namespace}", place, spec={"source": source})
    return apiserver.kubectl("create", "token", "viewer", *kubectl).strip()


def browser(gate: UserGate) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=gate)
    return httpx2.AsyncClient(transport=transport, base_url=ORIGIN, headers={"origin": ORIGIN})


async def test_a_token_shows_one_namespace_and_changes_nothing(gate: UserGate, token: str, namespace: str) -> None:
    async with browser(gate) as page:
        answer = await page.post("/sign-in", data={"token": token, "namespace": ""})
        assert answer.status_code == 303, answer.text
        own = f"/datasets/{namespace}/of-{namespace}"

        async def listed() -> str | None:
            shown = (await page.get("/datasets")).text
            return shown if own in shown else None

        html = await eventually_async(listed, SECONDS_OF_PROCESSES)
        assert f"/datasets/default/of-{namespace}" not in html
        assert f"system:serviceaccount:{namespace}:viewer" in html
        assert (await page.get(f"/datasets/default/of-{namespace}")).status_code == 403
        shown = (await page.get(own)).text
        assert shown.count(" disabled>") == 3
        csrf = shown.partition('name="csrf" value="')[2].partition('"')[0]
        refused = await page.post(f"{own}/pause", data={"csrf": csrf})
        assert refused.status_code == 403


async def test_a_wrong_token_is_refused(gate: UserGate) -> None:
    async with browser(gate) as page:
        answer = await page.post("/sign-in", data={"token": "eyJhbGciOiJub25lIn0.e30.", "namespace": ""})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


async def test_a_token_of_a_deleted_account_is_refused(
    gate: UserGate, token: str, apiserver: ApiServer, namespace: str
) -> None:
    apiserver.kubectl("delete", "serviceaccount", "viewer", "--namespace", namespace)
    async with browser(gate) as page:
        answer = await page.post("/sign-in", data={"token": token, "namespace": ""})
    assert answer.status_code == 401

"""A real kube-apiserver keeps the contract through the real client. This covers translations that need a server."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import yaml

from stoker_kube.api import Kube, Object
from stoker_kube.client import KubeClient
from stoker_kube.errors import Invalid, Unauthorized, Unavailable
from stoker_kube.resources import DATASETS, SERVICE_ACCOUNTS
from tests.contract.stoker_kube.kube_contract import KubeContract, config_map
from tests.support.apiserver import ApiServer
from tests.support.kinds import CONFIG_MAPS, NAMESPACES


@pytest.fixture
async def kube(apiserver: ApiServer) -> AsyncIterator[Kube]:
    async with await apiserver.client() as client:
        yield client


class TestApiServer(KubeContract):
    """Every behavior, on the real server."""


async def test_a_list_longer_than_a_page_is_whole(kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker_kube.client.PAGE_SIZE", 2)
    for name in "abcde":
        await kube.create(CONFIG_MAPS, config_map(name), namespace)
    assert [len(page.items) async for page in kube.pages(CONFIG_MAPS, namespace)] == [2, 2, 1]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"source": {"uri": "gs://bucket/"}}, "write s3://bucket/prefix/"),
        ({"cache": {"quota": "200GB"}}, "200GB is not a quantity of bytes"),
        ({"cache": {"replicas": "All"}}, "0 to 10000, or 'all'"),
    ],
    ids=["source", "quota", "replicas"],
)
async def test_a_bad_dataset_is_invalid_with_the_rule_s_sentence(
    kube: Kube, namespace: str, spec: Mapping[str, Object], sentence: str
) -> None:
    body = {"metadata": {"name": "bad"}, "spec": {"source": {"uri": "s3://bucket/"}, **spec}}
    with pytest.raises(Invalid, match=sentence):
        await kube.create(DATASETS, body, namespace)


async def test_a_service_account_token_is_made_for_an_audience(kube: Kube, namespace: str) -> None:
    await kube.create(SERVICE_ACCOUNTS, {"metadata": {"name": "trainer"}}, namespace)
    body = {"spec": {"audiences": ["sts.amazonaws.com"], "expirationSeconds": 3600}}
    answer = await kube.create_subresource(SERVICE_ACCOUNTS, "trainer", namespace, "token", body)
    assert answer["status"]["token"].count(".") == 2


async def test_a_wrong_token_is_unauthorized(apiserver: ApiServer, tmp_path: Path) -> None:
    config = yaml.safe_load(apiserver.kubeconfig.read_text())
    config["users"][0]["user"]["token"] = "someone-else"
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    async with await KubeClient.connect(file) as stranger:
        with pytest.raises(Unauthorized):
            await stranger.get(CONFIG_MAPS, "a", "default")


async def test_a_server_that_is_down_is_unavailable_and_named(apiserver: ApiServer, tmp_path: Path) -> None:
    config = yaml.safe_load(apiserver.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    async with await KubeClient.connect(file) as client:
        with pytest.raises(Unavailable, match=r"https://127\.0\.0\.1:1"):
            await client.list(NAMESPACES)


def exec_kubeconfig(apiserver: ApiServer, folder: Path, credential: Path) -> Path:
    """Write a kubeconfig whose token comes from a program, as cloud providers do."""
    config = yaml.safe_load(apiserver.kubeconfig.read_text())
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [str(credential)]}
    config["users"][0]["user"] = {"exec": plugin | {"interactiveMode": "Never"}}
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


def exec_credential(token: str) -> str:
    body = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}
    return json.dumps(body)


async def test_a_token_that_expired_is_asked_for_again(apiserver: ApiServer, tmp_path: Path) -> None:
    credential = tmp_path / "credential.json"
    credential.write_text(exec_credential("expired"))
    async with await KubeClient.connect(exec_kubeconfig(apiserver, tmp_path, credential)) as client:
        credential.write_text(exec_credential(apiserver.token))
        assert (await client.list(NAMESPACES)).items

"""Credentials of a pod."""

from pathlib import Path

import pytest

from stoker_kube.access.service_account import ServiceAccount
from stoker_kube.errors import ConfigError

SERVER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("first\n")
    return tmp_path


def test_the_server_address_comes_from_the_environment(folder: Path) -> None:
    assert ServiceAccount(SERVER, folder).host == "https://10.0.0.1:443"


def test_an_ipv6_address_stands_in_brackets(folder: Path) -> None:
    assert ServiceAccount(SERVER | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, folder).host == "https://[fd00::1]:443"


async def test_a_token_is_read_again_after_a_minute(folder: Path) -> None:
    now = [0.0]
    account = ServiceAccount(SERVER, folder, lambda: now[0])
    (folder / "token").write_text("second\n")
    soon = await account.authorization()
    now[0] = 60.0
    assert (soon, await account.authorization()) == ("Bearer first", "Bearer second")


@pytest.mark.parametrize("missing", sorted(SERVER))
def test_without_an_address_the_error_names_the_variables(folder: Path, missing: str) -> None:
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"):
        ServiceAccount(SERVER | {missing: ""}, folder)


@pytest.mark.parametrize("content", [b"", b"\n", "é".encode()])
def test_an_invalid_token_is_an_error_with_its_file(folder: Path, content: bytes) -> None:
    (folder / "token").write_bytes(content)
    with pytest.raises(ConfigError, match=str(folder / "token")):
        ServiceAccount(SERVER, folder)


def test_a_missing_token_is_an_error_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"Cannot read {tmp_path / 'token'}"):
        ServiceAccount(SERVER, tmp_path)


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_an_invalid_ca_is_an_error_with_its_file(folder: Path, content: str | None) -> None:
    if content is not None:
        (folder / "ca.crt").write_text(content)
    with pytest.raises(ConfigError, match=f"Cannot use {folder / 'ca.crt'}"):
        ServiceAccount(SERVER, folder).ssl()


async def test_a_refused_token_is_not_tried_again(folder: Path) -> None:
    assert not await ServiceAccount(SERVER, folder).renew()

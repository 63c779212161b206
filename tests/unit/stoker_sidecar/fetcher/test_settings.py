"""Settings of the fetcher, from its command line and its environment."""

from pathlib import Path

import pytest

from stoker_sidecar.fetcher.main import cache_settings
from stoker_sidecar.fetcher.node.cache_node import CacheSettings
from stoker_sidecar.fetcher.settings import FetcherSettings
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.wire.config.folders import FolderSpec
from tests.support.cases import cases

NEEDED = ["--socket=/s", "--root=/a"]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("HOST_FOLDERS", "WORKERS", "READAHEAD", "SCRUB_DAYS", "ENDPOINT_NETWORKS", "LAST_FILES")
    for name in ("AWS_CA_BUNDLE", *(f"STOKER_{name}" for name in names)):
        monkeypatch.delenv(name, raising=False)


def test_the_defaults_of_the_command_line_are_those_of_the_cache() -> None:
    settings = FetcherSettings.parse(NEEDED)
    connection = ConnectionSettings(endpoint_networks=())
    wanted = CacheSettings((FolderSpec("/a"),), connection=connection, peers=Path("/"))
    assert cache_settings(settings) == wanted


def test_networks_of_endpoints_are_told_by_commas() -> None:
    settings = FetcherSettings.parse([*NEEDED, "--endpoint-networks=127.0.0.1,10.0.0.0/8"])
    assert settings.endpoint_networks == ("127.0.0.1/32", "10.0.0.0/8")


def test_folders_are_given_one_flag_each() -> None:
    settings = FetcherSettings.parse([*NEEDED, "--root=memory:/b", "--host-folder=/data,1", "--host-folder=/more"])
    assert settings.root == (FolderSpec("/a"), FolderSpec("/b", memory=True))
    assert settings.host_folder == ("/data,1", "/more")


def test_folders_of_the_environment_are_split_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_HOST_FOLDERS", "/data,/more,")
    assert FetcherSettings.parse(NEEDED).host_folder == ("/data", "/more")


def test_a_flag_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_WORKERS", "3")
    assert FetcherSettings.parse(NEEDED).workers == 3
    assert FetcherSettings.parse([*NEEDED, "--workers=0"]).workers == 0


@cases(
    "flag, says",
    ("--workers=many", "write 0 or more, or Auto"),
    ("--floor-bytes=much", "write a share such as 16%"),
    ("--floor-inodes=100%", "write a share such as 16%"),
    ("--root=relative", "--root"),
    ("--readahead=much", "--readahead"),
)
def test_a_wrong_value_is_refused_by_a_sentence(flag: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        FetcherSettings.parse([*NEEDED, flag])
    assert says in capsys.readouterr().err

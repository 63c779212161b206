"""Files that a fetcher may open. It exits when one of its folders has been replaced."""

from pathlib import Path

import pytest

from stoker_sidecar.fetcher.confinement import confinement_of, end_when_outdated
from stoker_sidecar.fetcher.pages.memory_figures import FACTS
from stoker_sidecar.linux.sandbox.confinement import Confinement
from stoker_sidecar.linux.sandbox.landlock import READ, WRITE
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.wire.config.folders import FolderSpec
from tests.support.cache_node import at_once


class Replaced(Confinement):
    """A confinement whose third check reports a replaced folder."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def is_outdated(self) -> bool:
        self.asked += 1
        return self.asked == 3


@pytest.mark.expected_logs("was replaced by another")
async def test_it_ends_once_a_folder_was_replaced() -> None:
    ended: list[int] = []
    confinement = Replaced()
    await end_when_outdated(confinement, at_once, ended.append)
    assert (confinement.asked, ended) == (3, [1])


def test_caches_are_written_granted_folders_and_named_files_are_read(tmp_path: Path) -> None:
    cache, granted = tmp_path / "cache", tmp_path / "granted"
    connection = ConnectionSettings(host_folders=[str(granted)])
    token = {"AWS_WEB_IDENTITY_TOKEN_FILE": f"{tmp_path}/tokens/token"}
    confinement = confinement_of([FolderSpec(str(cache))], tmp_path / "run" / "fetcher.sock", connection, token)
    allowed = {rule.path: rule.access for rule in confinement.rules()}
    assert {path: access for path, access in allowed.items() if path.startswith(f"{tmp_path}/")} == {
        str(cache): WRITE,
        str(tmp_path / "run"): WRITE,
        str(granted): READ,
        f"{tmp_path}/tokens": READ,
    }


def test_a_cache_folder_is_made_before_the_right_to_it_is_given(tmp_path: Path) -> None:
    confinement_of([FolderSpec(f"{tmp_path}/a/cache")], Path("/run/s"), ConnectionSettings(), {})
    assert (tmp_path / "a" / "cache").is_dir()


def test_it_may_look_at_what_memory_there_is(tmp_path: Path) -> None:
    rules = confinement_of([FolderSpec(str(tmp_path))], tmp_path / "s", ConnectionSettings(), {}).rules()
    assert {rule.path for rule in rules if rule.access == READ}.issuperset(FACTS)

"""The TLS files that the agent writes for the fetcher."""

import stat
from pathlib import Path

from stoker_sidecar.wire.config.peer_tls import FILE, left
from tests.support.peers import peer_tls


def test_what_is_left_is_found_by_the_folders_group_and_nobody_else(tmp_path: Path) -> None:
    made = peer_tls()
    made.leave(tmp_path)
    assert left(tmp_path) == made
    found = (tmp_path / FILE).stat()
    assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o440, tmp_path.stat().st_gid)


def test_what_is_left_goes_through_no_link(tmp_path: Path) -> None:
    (tmp_path / f"{FILE}.new").symlink_to(tmp_path / "elsewhere")
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    peer_tls().leave(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    assert not (tmp_path / FILE).is_symlink()


def test_before_the_agent_has_it_there_is_none(tmp_path: Path) -> None:
    assert left(tmp_path) is None

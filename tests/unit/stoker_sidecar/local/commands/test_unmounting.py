"""The command line of `stoker umount`."""

from pathlib import Path

import pytest

from stoker_api.node_caches.mount_places import default_runs
from stoker_sidecar.errors import MountRefused
from stoker_sidecar.local.commands.unmounting import UmountOptions, parse_umount, umount

USER = 1000


def test_umount_finds_the_mounts_of_the_same_user() -> None:
    environment = {"XDG_RUNTIME_DIR": "/run/user/1000"}
    runs = default_runs(environment, USER)
    assert parse_umount(["/data"], environment, USER) == UmountOptions(Path("/data"), runs, force=False)
    assert parse_umount(["/data", "--force", "--run-dir", "/runs"], {}, USER) == UmountOptions(
        Path("/data"), Path("/runs"), force=True
    )


def test_wrong_usage_is_exit_code_2_and_names_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        parse_umount(["/data", "/more"], {}, USER)
    assert refused.value.code == 2
    assert "stoker umount: error: unrecognized arguments: /more" in capsys.readouterr().err


def test_what_is_not_mounted_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MountRefused, match="is not mounted by a stoker mount of this user"):
        umount(UmountOptions(tmp_path / "data", tmp_path / "runs", force=False))

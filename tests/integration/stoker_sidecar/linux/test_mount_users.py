"""Programs that use a mount in other mount namespaces, as containers do."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.linux.mounts.mount_calls import detach
from stoker_sidecar.local.mounts.mount_users import MountUsers

pytestmark = pytest.mark.root
_HOLD = "import os, sys; {action}; print('ready', flush=True); sys.stdin.readline()"
_OPEN = "file = open('{at}/sub/a', 'rb')"
_MAP = "import mmap; file = open('{at}/sub/a', 'rb'); held = mmap.mmap(file.fileno(), 0, prot=1); file.close()"
_CWD = "os.chdir('{at}')"
_NOTHING = "pass"


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """Mount a folder with the file sub/a."""
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "workspace").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "stoker-test", str(data)], check=True)
    (data / "sub").mkdir()
    (data / "sub" / "a").write_bytes(b"content")
    yield data
    detach(str(data))


@contextmanager
def _program(*command: str, action: str, at: Path) -> Iterator[int]:
    """Run a program that does ``action`` with the mount at ``at``, under the prefix ``command``. Yield its PID."""
    code = _HOLD.format(action=action.format(at=at))
    line = [*command, sys.executable, "-c", code]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        process.communicate("\n")


def _container(propagation: str, script: str) -> list[str]:
    return ["unshare", "--mount", "--propagation", propagation, "sh", "-c", f'{script}exec "$@"', "sh"]


def _users(data: Path) -> list[str]:
    return MountUsers(str(data), mountinfo.layers(mountinfo.read(), str(data))).programs()


@pytest.mark.parametrize("propagation", ["private", "slave"])
@pytest.mark.parametrize("action", [_OPEN, _MAP, _CWD], ids=["open", "mapped", "cwd"])
def test_a_program_of_a_container_is_named(data: Path, propagation: str, action: str) -> None:
    workspace = data.parent / "workspace"
    container = _container(propagation, f"mount --bind {data} {workspace}; ")
    with _program(*container, action=action, at=workspace) as pid:
        assert f"({pid})" in str(_users(data))


def test_a_program_that_reads_a_part_elsewhere_is_named(data: Path) -> None:
    workspace = data.parent / "workspace"
    subprocess.run(["mount", "--bind", str(data / "sub"), str(workspace)], check=True)
    try:
        with _program(action="file = open('{at}/a', 'rb')", at=workspace) as pid:
            assert f"({pid})" in str(_users(data))
    finally:
        detach(str(workspace))


def test_a_program_below_another_root_folder_is_named(data: Path) -> None:
    """Containers have a changed root, and /proc shows their file names relative to it."""
    bound = data.parent / "workspace"
    command = _container("private", f"mount --rbind / {bound}; ")
    code = f"os.chroot('{bound}'); file = open('{{at}}/sub/a', 'rb')"
    with _program(*command, action=code, at=data) as pid:
        assert f"({pid})" in str(_users(data))


def test_a_container_that_was_given_the_mount_is_named_while_no_file_is_open(data: Path) -> None:
    workspace = data.parent / "workspace"
    with _program(*_container("private", f"mount --bind {data} {workspace}; "), action=_NOTHING, at=workspace) as pid:
        assert [f"({pid})" in user for user in _users(data)] == [True]


@pytest.mark.parametrize("propagation", ["private", "slave"])
def test_a_service_with_a_copy_of_all_mounts_is_no_user(data: Path, propagation: str) -> None:
    with _program(*_container(propagation, ""), action=_NOTHING, at=data):
        assert _users(data) == []

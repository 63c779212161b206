"""Every change is refused with EROFS, in each kind of mount, for root and for another user."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.mount_kinds import KINDS, Shown

pytestmark = pytest.mark.root
_USERS = (0, 65534)
# On bind mounts the kernel checks the file's mode first: users other than root get EACCES.
_MODE_FIRST = {"to write", "to read and write", "to append", "truncate"}
_FILE = "data/small.txt"
Change = Callable[[Path], object]

_OPENS: dict[str, tuple[str, int]] = {
    "to write": (_FILE, os.O_WRONLY),
    "to read and write": (_FILE, os.O_RDWR),
    "to append": (_FILE, os.O_WRONLY | os.O_APPEND),
    "to truncate": (_FILE, os.O_RDONLY | os.O_TRUNC),
    "a new file": ("data/new", os.O_WRONLY | os.O_CREAT),
    "a new file that must be new": ("data/new", os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    "a file without a name": ("data", os.O_RDWR | os.O_TMPFILE),
}
_CHANGES: dict[str, Change] = {
    "mkdir": lambda root: (root / "new").mkdir(),
    "rmdir": lambda root: (root / "data").rmdir(),
    "unlink": lambda root: (root / _FILE).unlink(),
    "rename": lambda root: (root / _FILE).rename(root / "new"),
    "link": lambda root: (root / "new").hardlink_to(root / _FILE),
    "symlink": lambda root: (root / "new").symlink_to("data"),
    "mknod": lambda root: os.mknod(root / "new"),
    "mkfifo": lambda root: os.mkfifo(root / "new"),
    "chmod": lambda root: (root / _FILE).chmod(0o600),
    "chown": lambda root: os.chown(root / _FILE, 1, 1),
    "utime": lambda root: os.utime(root / _FILE),
    "truncate": lambda root: os.truncate(root / _FILE, 0),
    "setxattr": lambda root: os.setxattr(root / _FILE, "user.mine", b"1"),
    "removexattr": lambda root: os.removexattr(root / _FILE, "user.stoker.key"),
}


@contextmanager
def _as_user(uid: int, folder: Path) -> Iterator[None]:
    """Work in ``folder`` as that user, who has no search permission on its path."""
    before = Path.cwd()
    os.chdir(folder)
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.chdir(before)


def _refusal(change: Callable[[], object]) -> str:
    try:
        change()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "nothing was refused"


def _expected(mounted: Shown, what: str, user: int) -> str:
    return "EACCES" if mounted.kind == "native" and user and what in _MODE_FIRST else "EROFS"


@pytest.fixture
def writable_bind(mounted: Shown, tmp_path: Path) -> Iterator[Path]:
    """Bind the mount writable, as a container runtime may."""
    folder = tmp_path / "in the container"
    folder.mkdir()
    subprocess.run(["mount", "--bind", mounted.path, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,rw", folder], check=True)
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("user", _USERS)
@pytest.mark.parametrize("what", _OPENS)
def test_opening_is_refused(mounted: Shown, what: str, user: int) -> None:
    path, flags = _OPENS[what]
    with _as_user(user, mounted.path):
        refusal = _refusal(lambda: os.open(path, flags))
    assert refusal == _expected(mounted, what, user)


@pytest.mark.parametrize("user", _USERS)
@pytest.mark.parametrize("what", _CHANGES)
def test_changing_is_refused(mounted: Shown, what: str, user: int) -> None:
    with _as_user(user, mounted.path):
        refusal = _refusal(lambda: _CHANGES[what](Path()))
    assert refusal == _expected(mounted, what, user)


@pytest.mark.parametrize("mounted", [kind for kind in KINDS if kind != "native"], indirect=True)
@pytest.mark.parametrize("user", _USERS)
@pytest.mark.parametrize("what", [*_OPENS, *_CHANGES])
def test_a_bind_that_was_made_writable_refuses_too(writable_bind: Path, what: str, user: int) -> None:
    path, flags = _OPENS.get(what, ("", 0))
    with _as_user(user, writable_bind):
        refusal = _refusal(lambda: os.open(path, flags) if path else _CHANGES[what](Path()))
    assert refusal == "EROFS"


@pytest.mark.parametrize("flags", [os.O_CREAT, os.O_APPEND, os.O_NOATIME, os.O_SYNC, os.O_NONBLOCK, os.O_NOFOLLOW])
def test_flags_that_change_nothing_are_allowed_when_reading(mounted: Shown, flags: int) -> None:
    fd = os.open(mounted.path / _FILE, os.O_RDONLY | flags)
    try:
        assert os.read(fd, 100) == mounted.files[_FILE]
    finally:
        os.close(fd)

"""Every way to change something is refused with EROFS, in each kind of mount."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.mount_kinds import Shown

pytestmark = pytest.mark.root
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


@pytest.mark.parametrize("what", _OPENS)
def test_opening_is_refused(mounted: Shown, what: str) -> None:
    path, flags = _OPENS[what]
    with pytest.raises(OSError, match="Read-only") as caught:
        os.open(mounted.path / path, flags)
    assert caught.value.errno == errno.EROFS


@pytest.mark.parametrize("what", _CHANGES)
def test_changing_is_refused(mounted: Shown, what: str) -> None:
    with pytest.raises(OSError, match="Read-only") as caught:
        _CHANGES[what](mounted.path)
    assert caught.value.errno == errno.EROFS


@pytest.mark.parametrize("flags", [os.O_CREAT, os.O_APPEND, os.O_NOATIME, os.O_SYNC, os.O_NONBLOCK, os.O_NOFOLLOW])
def test_flags_that_change_nothing_are_allowed_when_reading(mounted: Shown, flags: int) -> None:
    fd = os.open(mounted.path / _FILE, os.O_RDONLY | flags)
    try:
        assert os.read(fd, 100) == mounted.files[_FILE]
    finally:
        os.close(fd)

"""Names, attributes, rights and locks, in each kind of mount."""

import errno
import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.mount_kinds import Shown
from tests.support.versions import MTIME_NS

pytestmark = pytest.mark.root
_FIEMAP = 0xC020660B  # FS_IOC_FIEMAP
_GETFLAGS = 0x80086601  # FS_IOC_GETFLAGS
_TCGETS = 0x5401  # isatty(3)
_AS_NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-ec")


def test_statx_tells_size_and_kind(mounted: Shown) -> None:
    for path, data in mounted.files.items():
        assert _stat(mounted, path, "%s %F") == f"{len(data)} regular {'empty ' if not data else ''}file"
    assert _stat(mounted, "data", "%F") == "directory"


def test_statx_tells_the_objects_time(mounted: Shown) -> None:
    if not mounted.is_native:  # the tests' finished files have their creation time
        assert (mounted.path / "data/small.txt").stat().st_mtime_ns == MTIME_NS


def test_inode_numbers_differ_and_stay(mounted: Shown) -> None:
    first = {path: (mounted.path / path).stat().st_ino for path in mounted.files}
    assert len(set(first.values())) == len(first)
    assert first == {path: (mounted.path / path).stat().st_ino for path in mounted.files}


def test_statfs_answers_and_names_can_have_255_bytes(mounted: Shown) -> None:
    answer = os.statvfs(mounted.path)
    assert answer.f_namemax == 255
    assert answer.f_flag & os.ST_RDONLY


def test_statfs_under_fuse_tells_the_versions_size_and_nothing_free(mounted: Shown) -> None:
    if mounted.is_fuse:
        answer, size = os.statvfs(mounted.path), sum(map(len, mounted.files.values()))
        assert (answer.f_blocks, answer.f_bavail) == (-(-size // answer.f_frsize), 0)


def test_a_name_that_is_too_long_is_enametoolong(mounted: Shown) -> None:
    with pytest.raises(OSError, match="File name too long"):
        (mounted.path / ("x" * 256)).stat()


def test_a_name_of_255_bytes_may_simply_not_be_there(mounted: Shown) -> None:
    assert not (mounted.path / ("x" * 255)).exists()


def test_dots_lead_where_they_should(mounted: Shown) -> None:
    assert (mounted.path / "data/.././data/small.txt").read_bytes() == b"one line\n"


@pytest.mark.parametrize("effective", [False, True])  # access(2) and faccessat2(2)
def test_even_root_may_read_and_search_but_not_write_or_execute(mounted: Shown, effective: bool) -> None:
    file, folder = mounted.path / "code/run.sh", mounted.path / "code"
    asked = [(path, mode) for path in (file, folder) for mode in (os.R_OK, os.W_OK, os.X_OK)]
    granted = [os.access(path, mode, effective_ids=effective) for path, mode in asked]
    assert granted == [True, False, False, True, False, True]


def test_any_user_may_read_and_search_but_not_write_or_execute(mounted: Shown) -> None:
    script = "cat data/small.txt; test -r data/empty; test ! -w data/empty; test ! -x data/empty; test -x data"
    done = subprocess.run([*_AS_NOBODY, script], cwd=mounted.path, capture_output=True, check=True)
    assert done.stdout == b"one line\n"


def test_a_script_is_run_by_naming_its_interpreter(mounted: Shown) -> None:
    with pytest.raises(PermissionError):
        subprocess.run([mounted.path / "code/run.sh"], check=True)
    done = subprocess.run(["sh", mounted.path / "code/run.sh"], capture_output=True, check=True)
    assert done.stdout == b"ran\n"


def test_extended_attributes_tell_where_a_file_comes_from(mounted: Shown) -> None:
    path = mounted.path / "data/small.txt"
    expected = {"user.stoker.key": b"data/small.txt", "user.stoker.etag": b"etag-of-data/small.txt"}
    names = [name for name in os.listxattr(path) if name.startswith("user.")]
    assert {name: os.getxattr(path, name) for name in names} == ({} if mounted.is_native else expected)


@pytest.mark.parametrize("name", ["user.none", "security.capability", "system.posix_acl_access"])
def test_an_extended_attribute_that_is_not_there_is_enodata(mounted: Shown, name: str) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ENODATA)):
        os.getxattr(mounted.path / "data/small.txt", name)


def test_reading_a_folder_as_a_file_is_eisdir_and_a_file_as_a_folder_enotdir(mounted: Shown) -> None:
    with pytest.raises(IsADirectoryError):
        (mounted.path / "data").read_bytes()
    with pytest.raises(NotADirectoryError):
        os.listdir(mounted.path / "data/empty")  # noqa: PTH208  the call itself


def test_readers_may_share_a_lock_and_one_may_have_it_alone(mounted: Shown) -> None:
    path = mounted.path / "data/small.txt"
    with path.open("rb") as one, path.open("rb") as other:
        for file in (one, other):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError):
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_UN)
        fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_record_locks_can_be_had_to_read_and_not_to_write(fd: int) -> None:
    fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    fcntl.lockf(fd, fcntl.LOCK_UN)
    with pytest.raises(OSError, match="Bad file descriptor"):
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_asking_for_the_layout_on_disk_answers_or_says_that_it_cannot(fd: int) -> None:
    for request in (_FIEMAP, _GETFLAGS, _TCGETS):
        try:
            fcntl.ioctl(fd, request, bytes(64))
        except OSError as error:
            assert error.errno in (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL)  # noqa: PT017  an answer is good too


def _stat(mounted: Shown, path: str, template: str) -> str:
    """Run stat(1), which uses statx(2): Python's own does not."""
    words = ["stat", "-c", template, str(Path(mounted.path) / path)]
    return subprocess.run(words, capture_output=True, check=True, text=True).stdout.strip()

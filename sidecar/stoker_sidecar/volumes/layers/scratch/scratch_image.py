"""The disk of one scratch layer: an unnamed file in a cache folder, with an empty file system."""

import errno
import os
import shutil
import subprocess
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker_api.meta import format_bytes
from stoker_sidecar.errors import MountError
from stoker_sidecar.wire.config.disk_floor import DiskFloor, DiskSpace

_PROGRAM = "mke2fs"
_PATH = "/usr/sbin:/sbin:/usr/local/sbin"
_SECONDS = 60.0
# No journal: a layer does not outlive its boot. No discard, which would give the reserved blocks back.
_OPTIONS = ("-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-O", "^has_journal,^resize_inode")
_EXTENDED = ("-E", "lazy_itable_init=1,nodiscard")
MOST_SHARE = 0.5  # of the cache disks, for all layers of a node: pods must not take the whole cache
_reserving = threading.Lock()  # two layers must not both count on the same free space


@contextmanager
def scratch_image(folders: Collection[Path], size: int, floor: DiskFloor, taken: int = 0) -> Iterator[int]:
    """Yield the descriptor of a new file of ``size`` bytes that are reserved on the disk. Raises MountError.

    It lies in the folder with the most free space. It has no name, so no other process can reach it. Its last user's
    end or a reboot deletes it. ``floor`` is the space that stays free. ``taken``: bytes of the node's other layers.
    """
    file = _reserved(folders, size, floor, taken)
    try:
        _format(file)
        yield file
    finally:
        os.close(file)


def _reserved(folders: Collection[Path], size: int, floor: DiskFloor, taken: int) -> int:
    with _reserving:
        free, folder = max(((_free(folder, floor), folder) for folder in folders), default=(0, Path("/")))
        left = scratch_left(_capacity(folders), taken)
        if size > min(free, left):
            raise MountError(
                errno.ENOSPC,
                f"scratch={format_bytes(size)} does not fit: the cache disk has {format_bytes(free)} free above its "
                f"floor, and {format_bytes(left)} are left for the scratch of all pods; ask for less, delete unused "
                "Datasets, or set cache.quota on large ones",
            )
        try:
            file = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            what = f"a scratch file cannot be made in {folder}"
            raise MountError(error.errno or errno.EIO, f"{what}: {error.strerror}") from error
        try:
            os.posix_fallocate(file, 0, size)
        except OSError as error:
            os.close(file)
            raise MountError(error.errno or errno.EIO, f"reserving scratch in {folder}: {error.strerror}") from error
        return file


def scratch_left(capacity: int, taken: int) -> int:
    """Return the bytes that further layers of a node may reserve. Pure."""
    return max(0, int(capacity * MOST_SHARE) - taken)


def _capacity(folders: Collection[Path]) -> int:
    """Return the bytes of all disks. 0 for a folder that cannot be read."""
    disks = dict[int, int]()
    for folder in folders:
        with suppress(OSError):
            found = os.statvfs(folder)
            disks[folder.stat().st_dev] = found.f_blocks * found.f_frsize
    return sum(disks.values())


def _free(folder: Path, floor: DiskFloor) -> int:
    """Return the free bytes above the floor. 0 for a folder that cannot be read."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    block = found.f_frsize
    return floor.bytes_left(DiskSpace(found.f_bavail * block, found.f_blocks * block, found.f_favail, found.f_files))


def _format(file: int) -> None:
    """Make an empty ext4 in the open file, which has only zeros. Raises MountError."""
    program = shutil.which(_PROGRAM, path=f"{os.environ.get('PATH', '')}:{_PATH}")
    if program is None:
        raise MountError(errno.ENOENT, f"scratch needs {_PROGRAM} on this machine: install e2fsprogs")
    command = (program, *_OPTIONS, *_EXTENDED, f"/proc/self/fd/{file}")
    try:
        ended = subprocess.run(command, pass_fds=(file,), capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MountError(errno.EIO, f"{_PROGRAM} did not make a file system: {error}") from error
    if ended.returncode != 0:
        last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise MountError(errno.EIO, f"{_PROGRAM} did not make a file system: {''.join(last)}")

"""Loop devices: block devices with a file's bytes. Needs root."""

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker_sidecar.errors import MountError

# By linux/loop.h.
_GET_FREE, _CONFIGURE = 0x4C82, 0x4C0A
_AUTOCLEAR, _DIRECT_IO = 4, 16
_MAJOR = 7
_CONTROL = Path("/dev/loop-control"), os.makedev(10, 237)
# struct loop_config: descriptor, block size, then struct loop_info64, whose 14th word is the flags.
_CONFIG = struct.Struct("=II 52x I 240x")
_TRIES = 20  # another program may take the free device first


@contextmanager
def attached(file: int) -> Iterator[str]:
    """Yield the path of a new loop device with the bytes of the open ``file``. Raises MountError.

    Mount it inside the context. The device is free again after its last user, which is then the mount.
    """
    device = -1
    try:
        for _ in range(_TRIES):
            device, path = _open_free()
            try:
                fcntl.ioctl(device, _CONFIGURE, _CONFIG.pack(file, 0, _AUTOCLEAR | _DIRECT_IO))
                break
            except OSError as error:
                os.close(device)
                device = -1
                if error.errno != errno.EBUSY:
                    raise
        else:
            raise OSError(errno.EBUSY, "all free devices were taken by other programs")
        yield path
    except OSError as error:
        what = "attaching a loop device (load its module on the node: modprobe loop)"
        raise MountError(error.errno or errno.EIO, f"{what}: {error.strerror}") from error
    finally:
        if device >= 0:
            os.close(device)


def _open_free() -> tuple[int, str]:
    control = _open_node(*_CONTROL, stat.S_IFCHR)
    try:
        number = fcntl.ioctl(control, _GET_FREE)
    finally:
        os.close(control)
    path = Path(f"/dev/loop{number}")
    return _open_node(path, os.makedev(_MAJOR, number), stat.S_IFBLK), str(path)


def _open_node(path: Path, device: int, kind: int) -> int:
    """Open a device. A container lacks the nodes of devices that are newer than itself, so they are created."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        os.mknod(path, kind | 0o600, device)
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

"""What must be true of machine and folder before anything is mounted or unmounted: a sentence for each that is not."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from stoker_sidecar.errors import MountRefused
from stoker_sidecar.linux import mounts
from stoker_sidecar.linux.fuse_device import FUSERMOUNT

_DEVICE = Path("/dev/fuse")
# What the base installation lacks.
_MODULES = ("pyfuse3", "trio", "aiobotocore")


def check_machine(uid: int) -> None:
    """Raise MountRefused when this machine, or user ``uid`` on it, cannot mount at all."""
    if sys.platform != "linux":
        raise MountRefused(f"mounting needs Linux and its FUSE; this is {sys.platform}")
    missing = [name for name in _MODULES if find_spec(name) is None]
    if missing:
        raise MountRefused(
            f"the Python packages {', '.join(missing)} are not installed: pip install '.[mount]' in Stoker's checkout"
        )
    if not _DEVICE.exists():
        raise MountRefused(
            f"there is no {_DEVICE}: load the kernel's module (modprobe fuse), or give the container that device"
        )
    if uid != 0 and not os.access(_DEVICE, os.R_OK | os.W_OK):
        raise MountRefused(f"this user may not open {_DEVICE}: chmod 666 {_DEVICE} as root, as distributions have it")
    if uid != 0 and shutil.which(FUSERMOUNT) is None:
        raise MountRefused(f"there is no {FUSERMOUNT}, by which users mount: install the package fuse3")


def check_others(configuration: Path = Path("/etc/fuse.conf")) -> None:
    """Raise MountRefused when users may not mount for others."""
    lines = configuration.read_text().splitlines() if configuration.exists() else []
    if "user_allow_other" not in (line.strip() for line in lines):
        raise MountRefused(
            f"--allow-other needs a line user_allow_other in {configuration}, by which root lets users mount for others"
        )


def real_folder(folder: Path) -> Path:
    """Return the folder as the kernel names it.

    A mount point is looked into only where it is a link, as a mount may be dead.
    """
    if os.path.islink(folder):  # noqa: PTH114 -- Path.is_symlink raises where a dead mount is
        return folder.resolve()
    return folder.absolute().parent.resolve() / folder.absolute().name


def check_folder(folder: Path, cache: Path, uid: int) -> None:
    """Raise MountRefused when nothing can be mounted at ``folder``, which is given by its real name."""
    if mounts.layers(folder):
        raise MountRefused(f"something is mounted at {folder} already: unmount it (stoker umount {folder}, or umount)")
    if not folder.exists():
        raise MountRefused(f"{folder} does not exist: make it first (mkdir {folder})")
    if not folder.is_dir():
        raise MountRefused(f"{folder} is not a folder")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise MountRefused(f"{folder} cannot be read by this user")
    if any(folder.iterdir()):
        raise MountRefused(f"{folder} is not empty, and a mount would hide what is in it: give an empty folder")
    if uid != 0 and not os.access(folder, os.W_OK):
        raise MountRefused(f"{folder} is not writable for this user, and users mount at folders of their own only")
    if folder in (cache, *cache.parents):
        raise MountRefused(
            f"the cache folder {cache} lies in {folder}, where the mount would hide it: give another --cache"
        )


def check_unused(folder: Path) -> None:
    """Raise MountRefused when programs use files below ``folder``: a mount that goes would take their data away."""
    if users := programs_in(folder):
        raise MountRefused(
            f"{folder} is in use by {', '.join(users)}: end that first, or take it away from under them (--force)"
        )


def programs_in(folder: Path, proc: Path = Path("/proc")) -> list[str]:
    """Return ``python (4711)`` for each program that has files open or mapped there, or works in it.

    As /proc tells, and only of those that this user may look at.
    """
    inside = (str(folder), f"{folder}/")
    found = []
    for process in sorted(proc.glob("[0-9]*"), key=lambda process: int(process.name)):
        if any(path == inside[0] or path.startswith(inside[1]) for path in _paths(process)):
            found.append(f"{_name(process)} ({process.name})")
    return found


def _paths(process: Path) -> Iterator[str]:
    with suppress(OSError):  # another user's, or it has just ended
        for link in (process / "cwd", *(process / "fd").iterdir()):
            with suppress(FileNotFoundError):  # just closed
                yield os.readlink(link)  # noqa: PTH115 -- a Path would lose what is no path, such as pipe:[1]
        for line in (process / "maps").read_text(errors="surrogateescape").splitlines():
            yield line.partition("/")[1] + line.partition("/")[2]


def _name(process: Path) -> str:
    with suppress(OSError):
        return (process / "comm").read_text().strip()
    return "a program"

"""Checks machine and folder before a mount or unmount. Each failed check raises a sentence."""

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from stoker_sidecar.errors import MountRefused
from stoker_sidecar.linux.mounts import target_mounts
from stoker_sidecar.linux.mounts.fuse_device import FUSERMOUNT
from stoker_sidecar.linux.mounts.mountinfo import Mount
from stoker_sidecar.local.mounts.mount_users import MountUsers

_DEVICE = Path("/dev/fuse")
# Packages that the base installation lacks.
_MODULES = ("pyfuse3", "trio", "aiobotocore")
_MOST_NAMED = 8  # programs in a sentence


def check_machine(uid: int) -> None:
    """Raise MountRefused if this machine, or user ``uid`` on it, cannot mount."""
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
    """Raise MountRefused if users may not mount with access for other users."""
    lines = configuration.read_text().splitlines() if configuration.exists() else []
    if "user_allow_other" not in (line.strip() for line in lines):
        raise MountRefused(
            f"--allow-other needs a line user_allow_other in {configuration}, with which root "
            "allows mounts for other users"
        )


def real_folder(folder: Path) -> Path:
    """Return the folder's path in the kernel's form.

    A mount point is accessed only if it is a link, because a mount may be dead.
    """
    if os.path.islink(folder):  # noqa: PTH114 -- Path.is_symlink raises at a dead mount
        return folder.resolve()
    return folder.absolute().parent.resolve() / folder.absolute().name


def check_folder(folder: Path, cache: Path, uid: int) -> None:
    """Raise MountRefused if nothing can be mounted at ``folder``, whose links are resolved."""
    if folder == folder.parent:
        raise MountRefused(f"a mount at {folder} would hide all files: give an empty folder, such as /data")
    if target_mounts.layers(folder):
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
        raise MountRefused(f"{folder} is not writable for this user, and users can mount only at writable folders")
    if folder in (cache, *cache.parents):
        raise MountRefused(
            f"the cache folder {cache} lies in {folder}, where the mount would hide it: give another --cache"
        )


def check_unused(folder: Path, shown: Sequence[Mount], keeper: int) -> None:
    """Raise MountRefused if programs use the mount at ``folder``, because unmounting would remove their data.

    ``shown`` are its layers, and the mounts that they show. Processes of ``keeper`` do not count.
    """
    if users := users_of(folder, shown, keeper):
        raise MountRefused(f"{folder} is in use by {users}: end that first, or take it away from under them (--force)")


def users_of(folder: Path, shown: Sequence[Mount], keeper: int) -> str:
    """Return the programs that use a mount, in words; empty: none. The arguments are those of ``check_unused``."""
    programs = MountUsers(str(folder), shown, session=keeper).programs()
    more = f" and {len(programs) - _MOST_NAMED} more" if len(programs) > _MOST_NAMED else ""
    return ", ".join(programs[:_MOST_NAMED]) + more

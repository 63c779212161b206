"""Read-only bind mounts: atomic where the kernel can (5.12), in two steps elsewhere."""

import errno

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux.mount_api import attach, clone_read_only
from stoker_sidecar.linux.syscalls import MS_BIND, MS_NODEV, MS_NOSUID, MS_RDONLY, MS_REMOUNT, mount


def bind_read_only(source: str, target: str) -> None:
    """Show the folder ``source`` at ``target``: read-only, no setuid, no devices. Raises MountError.

    Where something is mounted at ``target`` already, the new mount lies over it; it is never writable, not for an instant,
    on kernels from 5.12.
    """
    what = f"showing {source} at {target}"
    try:
        attach(clone_read_only(source, what), target, what)
    except MountError as error:
        if error.errno != errno.ENOSYS:
            raise
        mount(source, target, "", MS_BIND)
        mount("", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)

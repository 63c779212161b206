"""The command `stoker cache drop`: drops a mount's kernel caches for benchmarks; its files stay on the disk."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stoker_api.meta import format_bytes
from stoker_sidecar.errors import MountRefused
from stoker_sidecar.linux.files import sync_file_system
from stoker_sidecar.linux.kernel_caches import cached_bytes, drop_names, drop_of_the_machine, drop_pages
from stoker_sidecar.linux.mounts import mountinfo, target_mounts
from stoker_sidecar.local.mounts.mounted import FoundMount, all_mounted
from stoker_sidecar.local.mounts.preflight import real_folder
from stoker_sidecar.local.options.mount_options import DropOptions

_OWN_SUPERBLOCK = ("fuse", "overlay")


@dataclass
class DroppedPages:
    """Files with dropped pages, and their bytes in memory before and after; None: the kernel does not report them."""

    files: int = 0
    before: int | None = 0
    after: int | None = 0

    def add(self, before: int | None, after: int | None) -> None:
        """Count one file."""
        self.files += 1
        self.before = None if self.before is None or before is None else self.before + before
        self.after = None if self.after is None or after is None else self.after + after

    def __str__(self) -> str:
        if self.before is None or self.after is None:
            return f"pages of {self.files} files were given back (this kernel does not report their size)"
        kept = f"; {format_bytes(self.after)} stay, mapped by programs or being written" if self.after else ""
        return f"{format_bytes(self.before - self.after)} of {self.files} files were given back{kept}"


def drop(options: DropOptions) -> list[str]:
    """Drop the requested caches. Return the results in sentences. Raises MountRefused, MountError and OSError."""
    if options.system:
        return [_of_the_machine(options)]
    if options.folder is None:
        raise MountRefused(
            "say what to drop: --mount DIR of a stoker mount, or --system for all of this machine (root)"
        )
    folder = real_folder(options.folder)
    for mount in all_mounted(options.runs):
        if mount.folder == folder and mount.pid() is not None:
            return list(_of_mount(mount, options))
    raise MountRefused(f"{folder} is not mounted by a stoker mount of this user")


def _of_the_machine(options: DropOptions) -> str:
    if os.geteuid() != 0:
        raise MountRefused(
            "--system is for root: without it, pages of your own mount are dropped (--pages --mount DIR)"
        )
    drop_of_the_machine(pages=options.pages, names=options.names)
    kinds = " and ".join(word for word, asked in (("pages", options.pages), ("names", options.names)) if asked)
    return f"{kinds} of all file systems of this machine were given back, also those of other programs"


def _of_mount(mount: FoundMount, options: DropOptions) -> Iterator[str]:
    if options.names:
        yield _names(mount)
    if options.pages:
        yield str(_pages(mount))


def _names(mount: FoundMount) -> str:
    """Drop names of the mount's file systems. Those of a native mount belong to the disk."""
    if os.geteuid() != 0:
        raise MountRefused(
            f"names of a user's mount are dropped when it ends: stoker umount {mount.folder}, and mount again"
        )
    shown = mountinfo.layers(mountinfo.read(), str(mount.folder))
    own = [one for one in mountinfo.below(mountinfo.read(), str(mount.home.mounts)) if _is_own(one)]
    for one in own:
        drop_names(one)
    if shown and not _is_own(shown[-1]):
        raise MountRefused(
            f"{mount.folder} is native: its names are the disk's, and --system drops those of the whole machine"
        )
    return f"names of {len(own)} file systems of the mount were given back"


def _is_own(one: mountinfo.Mount) -> bool:
    return one.fs_type.partition(".")[0] in _OWN_SUPERBLOCK and not target_mounts.is_read_only_overlay(one)


def _pages(mount: FoundMount) -> DroppedPages:
    """Drop pages of the files in the cache, and of files read through FUSE, which has separate pages."""
    sync_file_system(mount.home.folder)  # dirty pages would stay
    done = DroppedPages()
    layers = mountinfo.layers(mountinfo.read(), str(mount.folder))
    through_fuse = bool(layers) and _is_own(layers[-1])
    for folder in (mount.home.cache, *([mount.folder] if through_fuse else [])):
        for path in _files(folder):
            _drop_file(path, done)
    return done


def _files(folder: Path) -> Iterator[str]:
    for where, _, names in os.walk(folder):
        yield from (f"{where}/{name}" for name in names)


def _drop_file(path: str, done: DroppedPages) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # dropped, replaced or moved since; links are not Stoker's
        return
    try:
        before = cached_bytes(descriptor)
        drop_pages(descriptor)
        done.add(before, cached_bytes(descriptor))
    finally:
        os.close(descriptor)

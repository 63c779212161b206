"""Finds the programs that use a mount, also in other mount namespaces, such as those of containers."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.linux.mounts.mountinfo import Mount

_PROC = Path("/proc")


class _View(NamedTuple):
    """The mounts visible to processes of one mount namespace and root folder.

    ``folders`` are their paths of the mount, as in links of /proc. ``is_given`` means that a private mount keeps
    showing it, as in a container that was started with it.
    """

    folders: tuple[str, ...]
    is_given: bool


@dataclass
class MountUsers:
    """Searches for users of one mount.

    ``folder`` is its mount point. ``shown`` are its layers, and the mounts that they show. Processes of ``session`` do
    not count; 0: all count.
    """

    folder: str
    shown: Sequence[Mount] = ()
    session: int = 0
    _views: dict[tuple[str, str], _View] = field(default_factory=dict)

    def programs(self) -> list[str]:
        """Return ``python (4711)`` for each program with open or mapped files, or its working directory, there.

        For a container with the mount, return its first program, even without open files. Programs that this user may
        not inspect are left out. Blocks.
        """
        used: dict[int, _View] = {}
        given: dict[int, _View] = {}
        for pid in sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()):
            with suppress(OSError):  # another user's, or it has just ended
                if self.session and os.getsid(pid) == self.session:
                    continue
                view = self._view(_PROC / str(pid))
                if any(_lies_in(path, view.folders) for path in _paths(_PROC / str(pid))):
                    used[pid] = view
                elif view.is_given and view not in given.values():
                    given[pid] = view
        silent = (pid for pid, view in given.items() if view not in used.values())
        return [f"{_name(pid)} ({pid})" for pid in sorted((*used, *silent))]

    def _view(self, process: Path) -> _View:
        """Return the mounts that a process sees. Raises OSError."""
        key = str((process / "ns" / "mnt").readlink()), str((process / "root").readlink())
        if key not in self._views:
            self._views[key] = self._looked(process, *key)
        return self._views[key]

    def _looked(self, process: Path, namespace: str, root: str) -> _View:
        rows = [row for row in mountinfo.read(process.name) if any(is_part(row, layer) for layer in self.shown)]
        folders = tuple((root.rstrip("/") + row.target).rstrip("/") for row in rows)
        if namespace == str(Path("/proc/self/ns/mnt").readlink()):
            return _View((*folders, self.folder), is_given=False)
        is_root_ours = os.path.samestat((process / "root").stat(), Path("/").stat())
        own = {row.target for row in self.shown} if is_root_ours else set()
        return _View(folders, is_given=any(not row.follows and row.target not in own for row in rows))


def is_part(row: Mount, layer: Mount) -> bool:
    """Return True if a mount shows the same folder as another mount, or a part of it. Pure."""
    return row.device == layer.device and _lies_in(row.root, [layer.root.rstrip("/")])


def _lies_in(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _paths(process: Path) -> Iterator[str]:
    for link in (process / "cwd", process / "root", *(process / "fd").iterdir()):
        with suppress(FileNotFoundError):  # just closed
            yield os.readlink(link)  # noqa: PTH115 -- a Path would lose what is no path, such as pipe:[1]
    for line in (process / "maps").read_text(errors="surrogateescape").splitlines():
        yield line.partition("/")[1] + line.partition("/")[2]


def _name(pid: int) -> str:
    with suppress(OSError):
        return (_PROC / str(pid) / "comm").read_text().strip()
    return "a program"

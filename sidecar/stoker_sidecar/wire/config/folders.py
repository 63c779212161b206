"""Folders of the sidecar: cache folders, and the layout of report folders of pods. Pure, standard library only."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

_MEMORY = "memory:"


@dataclass(frozen=True)
class FolderSpec:
    """A cache folder. ``path`` is absolute, the same in all processes. ``memory`` means a tmpfs instead of a disk."""

    path: str
    memory: bool = False

    @classmethod
    def parse(cls, text: str) -> "FolderSpec":
        """Parse ``/path``, or ``memory:/path``. Raises ValueError with a sentence."""
        path = text.strip().removeprefix(_MEMORY)
        if not path.startswith("/"):
            raise ValueError(f"{text!r} is not a cache folder: write an absolute path, or memory:/path for a tmpfs")
        return cls(path, text.strip().startswith(_MEMORY))

    def __str__(self) -> str:
        return f"{_MEMORY if self.memory else ''}{self.path}"


def parse_folders(text: str) -> tuple[FolderSpec, ...]:
    """Parse folders by preference, separated by commas. Raises ValueError with a sentence."""
    folders = tuple(FolderSpec.parse(word) for word in text.split(",") if word.strip())
    if not folders:
        raise ValueError("no cache folder is given: write at least one absolute path")
    if len({folder.path for folder in folders}) < len(folders):
        raise ValueError(f"{text!r} names a cache folder twice: each may be given once")
    return folders


@dataclass(frozen=True)
class FolderRoom:
    """The current state of a folder. ``free`` is the bytes for new files. ``healthy`` means in service."""

    path: str
    memory: bool
    free: int
    healthy: bool = True


def choose_folder(folders: Sequence[FolderRoom], need: int, homes: Collection[str] = ()) -> FolderRoom | None:
    """Choose a folder for ``need`` bytes of a version, or None without a folder in service.

    A folder of ``homes``, which hold other versions of the dataset, comes first if all fits: unchanged files are linked
    there. Next is a memory folder, if the list starts with it. Then come disks by free space, then memory. If the
    version fits nowhere, choose the folder with the most free space, and memory only without a disk in service.
    """
    healthy = [folder for folder in folders if folder.healthy]
    if not healthy:
        return None
    fitting = [folder for folder in healthy if need <= folder.free]
    first = folders[0].path if folders[0].memory else ""

    def rank(folder: FolderRoom) -> tuple[bool, bool, bool, int]:
        return folder.path not in homes, folder.path != first, folder.memory, -folder.free

    if fitting:
        return min(fitting, key=rank)
    return min(healthy, key=lambda folder: (folder.memory, -folder.free))


REPORTS = "reports"  # in the state folder; it has a folder for each pod, named by its UID
SOCKET_NAME = "report.sock"  # in each pod's folder

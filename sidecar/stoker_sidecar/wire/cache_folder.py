"""Which cache folder a version goes to, and how folders are written on command lines. Pure, standard library only."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

_MEMORY = "memory:"


@dataclass(frozen=True)
class FolderSpec:
    """A cache folder. ``path``: absolute, as all processes name it; ``memory``: it is a tmpfs, not on a disk."""

    path: str
    memory: bool = False

    @classmethod
    def parse(cls, text: str) -> "FolderSpec":
        """Read ``/path``, or ``memory:/path``. Raises ValueError with a sentence."""
        path = text.strip().removeprefix(_MEMORY)
        if not path.startswith("/"):
            raise ValueError(f"{text!r} is not a cache folder: write an absolute path, or memory:/path for a tmpfs")
        return cls(path, text.strip().startswith(_MEMORY))

    def __str__(self) -> str:
        return f"{_MEMORY if self.memory else ''}{self.path}"


def parse_folders(text: str) -> tuple[FolderSpec, ...]:
    """Read folders by preference, separated by commas. Raises ValueError with a sentence."""
    folders = tuple(FolderSpec.parse(word) for word in text.split(",") if word.strip())
    if not folders:
        raise ValueError("no cache folder is given: write at least one absolute path")
    if len({folder.path for folder in folders}) < len(folders):
        raise ValueError(f"{text!r} names a cache folder twice: each may be given once")
    return folders


@dataclass(frozen=True)
class FolderRoom:
    """A folder at this moment. ``free``: bytes that new files may take; ``healthy``: it is in service."""

    path: str
    memory: bool
    free: int
    healthy: bool = True


def choose_folder(folders: Sequence[FolderRoom], need: int, homes: Collection[str] = ()) -> FolderRoom | None:
    """Choose where ``need`` bytes of a version should go; None when no folder is in service.

    A folder of ``homes``, which hold other versions of the dataset, comes first if all fits: unchanged files are linked
    there. Then a memory folder, if the list begins with it; then disks, the one with most free space first; then
    memory. When it fits nowhere, it goes where most of it does, and to memory only when no disk is in service.
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

"""What of a version is warmed, where that is not all of it, and how much of that is here."""

from dataclasses import dataclass

from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.version.path_selection import PathSelection


@dataclass
class ChosenFiles:
    """The files of a version that are warmed, and how many of them can be read without the source.

    ``selection``: None for all files; then nothing is counted. ``gave_up``: digest of the paths that cannot be found
    in it, and ``why``, a sentence.
    """

    selection: PathSelection | None = None
    here_files: int = 0
    here_bytes: int = 0
    gave_up: str = ""
    why: str = ""

    def count(self, entry: Entry, files: int) -> None:
        """Note that a file has come (1), or is here no more (-1)."""
        if self.selection is not None and self.selection.chooses(entry.ino):
            self.here_files += files
            self.here_bytes += files * entry.size

    @property
    def digest(self) -> str:
        """Of the list of paths that names them; empty: all files."""
        return self.selection.digest if self.selection is not None else ""

    def are_of(self, digest: str) -> bool:
        """Tell whether these are the files of the list of paths with this digest; empty: all files."""
        return self.digest == digest

    @property
    def are_here(self) -> bool:
        """Whether there is a choice, and all of it is here."""
        return self.selection is not None and self.here_files == self.selection.files

    @property
    def bytes_left(self) -> int:
        """Bytes of chosen files that are not here."""
        return self.selection.total_bytes - self.here_bytes if self.selection is not None else 0

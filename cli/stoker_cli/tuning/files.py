"""The files of a folder, as rules see them."""

import os
from collections.abc import Iterator
from pathlib import Path

from stoker_cli.errors import NOT_FOUND, CliError
from stoker_cli.output import printable
from stoker_tuning.rules.facts import FileFacts


def files_below(folder: Path) -> Iterator[FileFacts]:
    """Yield the files below a folder without following links. Raises CliError if it cannot be listed."""
    waiting = [(str(folder), "")]  # no recursion: folders can be deeper than Python's stack
    while waiting:
        at, below = waiting.pop()
        folders = []
        for entry in _entries(at):
            if entry.is_dir(follow_symlinks=False):
                folders.append((entry.path, f"{below}{entry.name}/"))
            elif entry.is_file(follow_symlinks=False):
                yield FileFacts(f"{below}{entry.name}", _size(entry))
        waiting += reversed(folders)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CliError(f"Cannot list {printable(folder)}: {reason}", NOT_FOUND) from error


def _size(entry: os.DirEntry[str]) -> int | None:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:  # deleted after the listing
        return None

"""Objects of a listing, and the selection of the dataset's files by keys and patterns.

docs/reference/semantics.md lists the rules; this is their source.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from stoker_tuning.rules.globs import PatternError, compile_glob

NAME_MAX = 255  # bytes of one file name on Linux
PATH_MAX = 4095  # bytes of a whole path on Linux, less its NUL


class SkipReason(StrEnum):
    """Why a key counts in status.skipped and has no file."""

    EMPTY_SEGMENT = "EmptySegment"  # '//' or a leading '/'
    DOT_SEGMENT = "DotSegment"  # '.' or '..' between slashes
    NUL_BYTE = "NulByte"
    SEGMENT_TOO_LONG = "SegmentTooLong"
    PATH_TOO_LONG = "PathTooLong"
    NOT_UTF8 = "NotUTF8"
    FILE_AND_FOLDER = "FileAndFolder"  # 'a' next to 'a/b': the folder is shown, the file is not
    FOLDER_WITH_CONTENT = "FolderWithContent"  # 'a/' with bytes in it
    UNKNOWN_NAME = "UnknownName"  # the server lists U+FFFD for characters that XML cannot represent
    UNREADABLE = "Unreadable"  # a folder of file:// that cannot be listed, or a file in one that cannot be entered
    LINK_OUTSIDE = "LinkOutside"  # a symbolic link to a folder outside this source's permissions
    LINK_LOOP = "LinkLoop"  # a symbolic link to a parent folder, or to itself
    BROKEN_LINK = "BrokenLink"  # a symbolic link to a missing target


class ListedObject(NamedTuple):
    """An object of a listing.

    ``path`` is the key below the source's folder, raw bytes; ``size`` in bytes, ``mtime_ns`` since 1970, ``etag``
    without quotes; ``version_id`` is empty in a bucket without versions. ``skipped`` is the reason why the source
    cannot list it; size, time and ETag then have no meaning.
    """

    path: bytes
    size: int
    mtime_ns: int
    etag: str
    version_id: str = ""
    skipped: SkipReason | None = None


def is_folder_marker(path: bytes) -> bool:
    """Return True if a key ends with '/', as consoles create it for an empty folder."""
    return path.endswith(b"/")


def skip_reason(path: bytes, size: int) -> SkipReason | None:
    """Return why the object at ``path`` (below the source's folder) cannot be a file or an empty folder, or None."""
    if is_folder_marker(path):
        if size > 0:
            return SkipReason.FOLDER_WITH_CONTENT
        path = path[:-1]
    return _bad_text(path) or _bad_segment(path)


def _bad_text(path: bytes) -> SkipReason | None:
    if b"\0" in path:
        return SkipReason.NUL_BYTE
    if len(path) > PATH_MAX:
        return SkipReason.PATH_TOO_LONG
    try:
        path.decode()
    except UnicodeDecodeError:
        return SkipReason.NOT_UTF8
    return None


def _bad_segment(path: bytes) -> SkipReason | None:
    for segment in path.split(b"/"):
        if not segment:
            return SkipReason.EMPTY_SEGMENT
        if segment in (b".", b".."):
            return SkipReason.DOT_SEGMENT
        if len(segment) > NAME_MAX:
            return SkipReason.SEGMENT_TOO_LONG
    return None


def folder_prefix(key_prefix: str) -> str:
    """Add a final '/' to a prefix, so that ``p`` and ``p/`` name the same folder and ``p`` never matches ``pq/``."""
    stripped = key_prefix.rstrip("/")
    return f"{stripped}/" if stripped else ""


def selector(include: Iterable[str], exclude: Iterable[str]) -> Callable[[str], bool]:
    """Return the test for paths of the dataset. Without include it accepts all paths, and exclude overrides it.

    Raises ValueError with a sentence.
    """
    kept = [compile_pattern(pattern) for pattern in include]
    dropped = [compile_pattern(pattern) for pattern in exclude]

    def selected(path: str) -> bool:
        if kept and not any(pattern.fullmatch(path) for pattern in kept):
            return False
        return not any(pattern.fullmatch(path) for pattern in dropped)

    return selected


def below_selector(include: Iterable[str], exclude: Iterable[str]) -> Callable[[str], bool]:
    """Return the test for folders that may contain paths of the dataset, for any file names.

    Raises ValueError with a sentence.
    """
    kept = [pattern.split("/") for pattern in include]
    dropped = [compile_pattern(pattern) for pattern in exclude]

    def selected(folder: str) -> bool:
        if kept and not any(_may_match_below(pattern, folder.split("/")) for pattern in kept):
            return False
        return not any(pattern.fullmatch(f"{folder}/any") for pattern in dropped)

    return selected


def _may_match_below(pattern: Sequence[str], folder: Sequence[str]) -> bool:
    for part, name in zip(pattern, folder, strict=False):
        if part == "**":
            return True
        if not compile_pattern(part).fullmatch(name):
            return False
    return len(pattern) > len(folder)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Translate one pattern to a regular expression for whole paths. Raises ValueError with a sentence."""
    try:
        return compile_glob(pattern)
    except PatternError as error:
        raise ValueError(f"the pattern {pattern!r} cannot be used: {error}") from error

"""Objects as a listing yields them, and which keys can be files.

docs/SEMANTICS.md lists the rules; this is their source.
"""

from enum import StrEnum
from typing import NamedTuple

NAME_MAX = 255  # bytes of one file name on Linux
PATH_MAX = 4095  # bytes of a whole path on Linux, less its NUL


class ListedObject(NamedTuple):
    """An object as a listing yields it.

    ``path`` is the key below the source's folder, raw bytes; ``size`` in bytes, ``mtime_ns`` since 1970, ``etag``
    without quotes; ``version_id`` is empty where the bucket keeps no versions.
    """

    path: bytes
    size: int
    mtime_ns: int
    etag: str
    version_id: str = ""


class SkipReason(StrEnum):
    """Why a key is counted in status.skipped and not shown."""

    EMPTY_SEGMENT = "EmptySegment"  # '//' or a leading '/'
    DOT_SEGMENT = "DotSegment"  # '.' or '..' between slashes
    NUL_BYTE = "NulByte"
    SEGMENT_TOO_LONG = "SegmentTooLong"
    PATH_TOO_LONG = "PathTooLong"
    NOT_UTF8 = "NotUTF8"
    FILE_AND_FOLDER = "FileAndFolder"  # 'a' beside 'a/b': the folder is shown, the file is not
    FOLDER_WITH_CONTENT = "FolderWithContent"  # 'a/' with bytes in it


def is_folder_marker(path: bytes) -> bool:
    """Tell whether a key ends with '/': what consoles create for an empty folder."""
    return path.endswith(b"/")


def skip_reason(path: bytes, size: int) -> SkipReason | None:
    """Tell why the object at ``path`` (below the source's folder) cannot be a file or an empty folder; None: it can."""
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
    """End a prefix with '/', so that ``p`` and ``p/`` name the same folder and ``p`` never matches ``pq/``."""
    stripped = key_prefix.rstrip("/")
    return f"{stripped}/" if stripped else ""

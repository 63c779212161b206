"""Which object keys can be files. docs/SEMANTICS.md lists the rules; this is their source."""

from enum import StrEnum

NAME_MAX = 255  # bytes of one file name on Linux
PATH_MAX = 4095  # bytes of a whole path on Linux, less its NUL


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
    """``dir/``: what consoles create for an empty folder."""
    return path.endswith(b"/")


def skip_reason(path: bytes, size: int) -> SkipReason | None:
    """Why the object at ``path`` (below the source's folder) cannot be a file or an empty folder; None: it can."""
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
    """``p`` and ``p/`` name the same folder; the result ends with '/', so that ``p`` never matches ``pq/``."""
    stripped = key_prefix.rstrip("/")
    return f"{stripped}/" if stripped else ""

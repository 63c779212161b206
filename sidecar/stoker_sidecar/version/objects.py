"""Objects as a listing yields them, and which of them are files of the dataset: what keys and patterns say.

docs/SEMANTICS.md lists the rules; this is their source.
"""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

NAME_MAX = 255  # bytes of one file name on Linux
PATH_MAX = 4095  # bytes of a whole path on Linux, less its NUL
# Of an include or exclude: ``*`` and ``?`` stop at '/', ``**`` does not.
_TOKEN = re.compile(r"\*\*/|/\*\*$|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)

_NO_CHARACTER = {"[]", "[!]", "[^]"}


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


def selector(include: Iterable[str], exclude: Iterable[str]) -> Callable[[str], bool]:
    """Return the test for paths of the dataset: without include it is every path, and exclude wins.

    Raises ValueError with a sentence.
    """
    kept = [compile_pattern(pattern) for pattern in include]
    dropped = [compile_pattern(pattern) for pattern in exclude]

    def selected(path: str) -> bool:
        if kept and not any(pattern.fullmatch(path) for pattern in kept):
            return False
        return not any(pattern.fullmatch(path) for pattern in dropped)

    return selected


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Translate one pattern to a regular expression that is matched whole. Raises ValueError with a sentence.

    It takes at most as many steps as the pattern's length times the path's: a ``*`` that has found the next characters
    of its pattern never looks for them again (an atomic group), since a match further on could only leave less to the
    rest; the same holds for ``**/`` and the folders that follow it.
    """
    if not pattern or pattern.startswith("/") or pattern.endswith("/"):
        raise ValueError(f"the pattern {pattern!r} must not be empty, nor begin or end with '/': write train/**")
    if re.search(r"[^/]\*\*|\*\*[^/]", pattern):
        raise ValueError(f"in the pattern {pattern!r} '**' must stand alone between slashes: write a/**/b")
    tokens = _TOKEN.findall(pattern)
    if _NO_CHARACTER & set(tokens):
        raise ValueError(f"the pattern {pattern!r} has brackets without a character in them: write [abc] or [!abc]")
    groups, below = _folder_groups(tokens)
    # What comes behind '**' ends the path, unless the pattern goes on with whatever is below.
    parts = [_folders(group, last=not below and group is groups[-1]) for group in groups[1:]]
    source = "".join([_segments(groups[0]), *(f"(?>(?:[^/]*+/)*?{part})" for part in parts)]) + (".+" if below else "")
    try:
        return re.compile(source, re.DOTALL)
    except re.error as error:
        raise ValueError(f"the pattern {pattern!r} cannot be read: {error}") from error


def _folder_groups(tokens: list[str]) -> tuple[list[list[str]], bool]:
    """Split the tokens of a pattern at each ``**/``; tells whether it ends with ``**``, which is left out."""
    below = tokens[-1] in ("**", "/**")
    if below:
        tokens = [*tokens[:-1], *(["/"] if tokens[-1] == "/**" else [])]
    groups: list[list[str]] = [[]]
    for token in tokens:
        if token == "**/":
            groups.append([])
        else:
            groups[-1].append(token)
    return groups, below


def _folders(group: list[str], *, last: bool) -> str:
    return _segments(group) + (r"\Z" if last else "")


def _segments(tokens: list[str]) -> str:
    """Translate names between slashes."""
    names: list[list[str]] = [[]]
    for token in tokens:
        if token == "/":
            names.append([])
        else:
            names[-1].append(token)
    return "/".join(_name(name) for name in names)


def _name(tokens: list[str]) -> str:
    """Translate one name: what stands between its stars is found from the left, the last of it at the name's end."""
    runs: list[str] = [""]
    for token in tokens:
        if token == "*":
            runs.append("")
        else:
            runs[-1] += _translate(token)
    first, *others = runs
    if not others:
        return first
    end = f"(?>[^/]*?{others[-1]}(?=/|\\Z))" if others[-1] else "[^/]*+"
    return first + "".join(f"(?>[^/]*?{run})" for run in others[:-1]) + end


def _translate(token: str) -> str:
    """Translate what stands for one character."""
    if token == "?":
        return "[^/]"
    if token.startswith("[") and len(token) > 1:
        body = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?!/)[^{body[1:]}]" if body.startswith("!") else f"(?!/)[{body}]"
    return re.escape(token)

"""The part of a Dataset to warm ahead: paths and patterns in order, and their results."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, Field

from stoker_api.meta import DigestText, Model, cel_rule, shortened

MOST_WARM_PATHS = 1000
MOST_WARM_PATH = 1024  # characters of one
# Limit on paths with wildcards, since each is compared with all names of a folder or a tree.
MOST_WARM_PATTERNS = 100
MOST_ANY_DEPTH = 4  # occurrences of '**' in one path
MOST_UNMATCHED_NAMED = 3
_MOST_NAMED = 80  # characters of each of them
_INT64 = {"format": "int64"}
_WILD = re.compile(r"[*?\[]")
_BRACKET = re.compile(r"\[(!?\]?[^\]]*)\]")
_RANGE = re.compile(r"(.)-(.)", re.DOTALL)


def is_pattern(path: str) -> bool:
    """Return True if a path has wildcards. A file with such characters in its name still matches by name."""
    return _WILD.search(path) is not None


def path_segments(path: str) -> tuple[str, ...]:
    """Return the names between a path's slashes. A trailing slash has no effect."""
    return tuple(path.removesuffix("/").split("/"))


def checked_warm_path(path: str) -> str:
    """Return a path or pattern unchanged if it is valid. Raises ValueError with a sentence."""
    segments = path_segments(path)
    shown = shortened(path, _MOST_NAMED)
    if not is_text(path):
        raise ValueError(f"the path {shown!r} is not UTF-8: name its folder")
    if "" in segments or "\0" in path:
        raise ValueError(
            f"the path {shown!r} must be below the Dataset's folder, with a name between slashes: write train/"
        )
    if "." in segments or ".." in segments:
        raise ValueError(f"the path {shown!r} must not contain '.' or '..' as a name")
    if any("**" in segment and segment != "**" for segment in segments):
        raise ValueError(f"in the path {shown!r} '**' must stand alone between slashes: write a/**/b")
    if segments.count("**") > MOST_ANY_DEPTH:
        raise ValueError(f"the path {shown!r} has '**' {segments.count('**')} times, and may {MOST_ANY_DEPTH} times")
    for body in _BRACKET.findall(path):
        marks = body.removeprefix("!")
        if not marks or any(first > last for first, last in _RANGE.findall(marks)):
            raise ValueError(f"the path {shown!r} has brackets that mean nothing: write [abc], [!abc] or [a-z]")
    return path


def is_text(word: str) -> bool:
    """Return True if a command-line argument is valid text. Bytes that are not UTF-8 appear as surrogates."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


class TooManyPathsError(ValueError):
    """The list has too many paths."""


def listed_warm_paths(lines: Iterable[bytes], most: int = MOST_WARM_PATHS) -> Iterator[str]:
    """Yield the paths of a list as ``numbered_warm_paths`` does, without line numbers."""
    return (path for _, path in numbered_warm_paths(lines, most))


def numbered_warm_paths(lines: Iterable[bytes], most: int) -> Iterator[tuple[int, str]]:
    """Yield the paths of a UTF-8 list, one a line, with their line numbers. ``#`` starts a comment.

    A file with more than ten lines per allowed path (``most``) is refused while streaming. Raises TooManyPathsError, or
    ValueError with the number and the problem of an invalid line.
    """
    for number, line in enumerate(lines, start=1):
        if number > 10 * most:
            raise TooManyPathsError(f"{most} paths are the most: name folders, or use patterns")
        try:
            path = line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"line {number} of the list is not UTF-8: save it as UTF-8") from error
        if path.strip() and not path.startswith("#"):
            yield number, _checked_line(number, path)


def _checked_line(number: int, path: str) -> str:
    try:
        if len(path) > MOST_WARM_PATH:
            raise ValueError(f"{len(path)} characters are too many for a path: {MOST_WARM_PATH} are the most")
        return checked_warm_path(path)
    except ValueError as error:
        raise ValueError(f"line {number} of the list: {error}") from error


def checked_warm_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths if the number of patterns is allowed. Raises ValueError with a sentence."""
    patterns = sum(map(is_pattern, paths))
    if patterns > MOST_WARM_PATTERNS:
        raise ValueError(
            f"{patterns} of the paths have wildcards, and {MOST_WARM_PATTERNS} may: name folders or files, "
            "of which there may be more"
        )
    return tuple(paths)


@lru_cache(maxsize=1024)
def paths_digest(paths: tuple[str, ...]) -> str:
    """Return the digest that identifies the paths of a node's figures. Empty for no paths.

    For a list stored in the Dataset, hash only its name: the version determines its content.
    """
    name = list_named(paths)
    return digest_as_paths(("", "list", name) if name else paths)


def digest_as_paths(paths: tuple[str, ...]) -> str:
    """Return the digest reported by old sidecars, which treat a list's name as a path."""
    return hashlib.sha256("\0".join(paths).encode("utf-8", "surrogatepass")).hexdigest()[:16] if paths else ""


def told_as_list(name: str) -> tuple[str, ...]:
    """Return the placeholder of a stored list among paths. A real path never starts with a slash."""
    return (f"/{name}",)


def list_named(paths: Sequence[str]) -> str:
    """Return the name of a stored list from its placeholder. Empty if these are paths."""
    return paths[0][1:] if len(paths) == 1 and paths[0].startswith("/") else ""


def named_unmatched(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the first few unmatched paths, cut to a bounded length."""
    return tuple(shortened(path, _MOST_NAMED) for path in paths[:MOST_UNMATCHED_NAMED])


_PATH_RULES = [
    cel_rule(
        "!self.startsWith('/') && !self.contains('//')",
        "a path of warm.paths is below the Dataset's folder, without a slash at its beginning or two in a row: "
        "write train/",
    ),
]
WarmPath = Annotated[
    str,
    Field(min_length=1, max_length=MOST_WARM_PATH, json_schema_extra={"x-kubernetes-validations": list(_PATH_RULES)}),
    AfterValidator(checked_warm_path),
]
# The maximum precedes the validator. After it, the schema would get the maximum of a string.
WarmPathList = Annotated[tuple[WarmPath, ...], Field(max_length=MOST_WARM_PATHS), AfterValidator(checked_warm_paths)]


class WarmPathsStatus(Model):
    """Warm progress of the files that `warm.paths` or `warm.list` selects."""

    digest: Annotated[DigestText, Field(description="Digest of the paths of these figures.")] = ""
    files: Annotated[int, Field(json_schema_extra=_INT64, description="Files that the paths select.")] = 0
    bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    warm_files: Annotated[int, Field(json_schema_extra=_INT64, description="Selected files on the node.")] = 0
    warm_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    unmatched: Annotated[int, Field(json_schema_extra=_INT64, description="Paths that match no file.")] = 0
    unmatched_paths: Annotated[
        tuple[Annotated[str, Field(max_length=1024)], ...],
        Field(description="The first few unmatched paths, cut if long.", max_length=10),
    ] = ()

"""What of a Dataset is warmed ahead when not all of it is: paths and patterns, in order, and what came of them."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, Field

from stoker_api.meta import Model, cel_rule, shortened

MOST_WARM_PATHS = 1000
MOST_WARM_PATH = 1024  # characters of one
# Of them with wildcards: each is compared with the names of a folder, or of everything below one.
MOST_WARM_PATTERNS = 100
MOST_ANY_DEPTH = 4  # '**' in one of them
MOST_UNMATCHED_NAMED = 3
_MOST_NAMED = 80  # characters of each of them
_INT64 = {"format": "int64"}
_WILD = re.compile(r"[*?\[]")
_BRACKET = re.compile(r"\[(!?\]?[^\]]*)\]")
_RANGE = re.compile(r"(.)-(.)", re.DOTALL)


def is_pattern(path: str) -> bool:
    """Tell whether a path has wildcards. A file whose name has such characters is found by that name all the same."""
    return _WILD.search(path) is not None


def path_segments(path: str) -> tuple[str, ...]:
    """Return the names between a path's slashes; a slash at its end says that it is a folder, and means nothing."""
    return tuple(path.removesuffix("/").split("/"))


def checked_warm_path(path: str) -> str:
    """Return a path or pattern that can be understood. Raises ValueError with a sentence."""
    segments = path_segments(path)
    shown = shortened(path, _MOST_NAMED)
    if not is_text(path):
        raise ValueError(f"the path {shown!r} is no UTF-8: name its folder")
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
    """Tell whether a word of a command line is text: bytes that are no UTF-8 are half of a character in it."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


class TooManyPathsError(ValueError):
    """More paths than there may be."""


def listed_warm_paths(lines: Iterable[bytes], most: int = MOST_WARM_PATHS) -> Iterator[str]:
    """Yield the paths of a list as ``numbered_warm_paths`` does, without the numbers of their lines."""
    return (path for _, path in numbered_warm_paths(lines, most))


def numbered_warm_paths(lines: Iterable[bytes], most: int) -> Iterator[tuple[int, str]]:
    """Yield the paths of a list in UTF-8, one a line, with the numbers of their lines; ``#`` begins a comment.

    A file of many more lines than there may be paths (``most``) is refused before it is in memory. Raises
    TooManyPathsError, or ValueError with the number of the line that is wrong, and why.
    """
    for number, line in enumerate(lines, start=1):
        if number > 10 * most:
            raise TooManyPathsError(f"{most} paths are the most: name folders, or use patterns")
        try:
            path = line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"line {number} of the list is no UTF-8: save it as UTF-8") from error
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
    """Return paths of which few enough are patterns. Raises ValueError with a sentence."""
    patterns = sum(map(is_pattern, paths))
    if patterns > MOST_WARM_PATTERNS:
        raise ValueError(
            f"{patterns} of the paths have wildcards, and {MOST_WARM_PATTERNS} may: name folders or files, "
            "of which there may be more"
        )
    return tuple(paths)


@lru_cache(maxsize=1024)
def paths_digest(paths: tuple[str, ...]) -> str:
    """Return by what a node says which paths its figures are about; empty for none.

    Of a list that is a file of the Dataset it is of its name: what is in it is the version's to say.
    """
    name = list_named(paths)
    return digest_as_paths(("", "list", name) if name else paths)


def digest_as_paths(paths: tuple[str, ...]) -> str:
    """Return the digest by which a sidecar says it that knows no such lists, and takes a list's name for a path."""
    return hashlib.sha256("\0".join(paths).encode("utf-8", "surrogatepass")).hexdigest()[:16] if paths else ""


def told_as_list(name: str) -> tuple[str, ...]:
    """Return what stands for a list that is a file of the Dataset where paths are told: none begins with a slash."""
    return (f"/{name}",)


def list_named(paths: Sequence[str]) -> str:
    """Return the name of the list that stands in place of paths; empty where these are paths."""
    return paths[0][1:] if len(paths) == 1 and paths[0].startswith("/") else ""


def named_unmatched(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the first few of paths that match nothing, each of bounded length."""
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
# The maximum stands before the validator: behind it, the schema would have that of a string.
WarmPathList = Annotated[tuple[WarmPath, ...], Field(max_length=MOST_WARM_PATHS), AfterValidator(checked_warm_paths)]


class WarmPathsStatus(Model):
    """How far the files are that `warm.paths` or `warm.list` names."""

    digest: Annotated[str, Field(description="Of the list of paths that this is about.")] = ""
    files: Annotated[int, Field(json_schema_extra=_INT64, description="Files that the paths name.")] = 0
    bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    warm_files: Annotated[int, Field(json_schema_extra=_INT64, description="What of them is there.")] = 0
    warm_bytes: Annotated[int, Field(json_schema_extra=_INT64)] = 0
    unmatched: Annotated[int, Field(json_schema_extra=_INT64, description="Paths that name nothing.")] = 0
    unmatched_paths: Annotated[tuple[str, ...], Field(description="The first few of these, cut where long.")] = ()

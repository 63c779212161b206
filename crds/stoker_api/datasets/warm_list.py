"""A warm list stored as a text file in the Dataset: its name and its lines."""

from collections.abc import Iterator
from io import BytesIO
from typing import Annotated

from pydantic import AfterValidator, Field

from stoker_api.datasets.warm_paths import (
    MOST_WARM_PATH,
    MOST_WARM_PATTERNS,
    TooManyPathsError,
    is_pattern,
    is_text,
    numbered_warm_paths,
)
from stoker_api.meta import cel_rule, format_bytes, shortened

MOST_LISTED_PATHS = 200_000
# Size limit of the file. Each node fetches it and holds it in memory while reading.
MOST_LIST_BYTES = 32 * 2**20
LIST_HINT = (
    "it is the path of a text file below the Dataset's folder, without a slash at its beginning or end, two in a row, "
    "or '.' or '..' as a name: write lists/mine.txt"
)
LIST_OR_PATHS = "warm.list and warm.paths exclude each other: leave one of them out"
_MOST_NAMED = 80  # characters


def checked_list_name(name: str) -> str:
    """Return the path unchanged if it can be a list. Raises ValueError with a sentence."""
    if len(name) > MOST_WARM_PATH:
        raise ValueError(f"the path of the list has {len(name)} characters, more than {MOST_WARM_PATH}")
    if not is_text(name) or "\0" in name or {"", ".", ".."}.intersection(name.split("/")):
        raise ValueError(f"the list {shortened(name, _MOST_NAMED)!r} cannot be: {LIST_HINT}")
    return name


def paths_of_list(content: bytes) -> Iterator[str]:
    """Yield the paths in a list. Raises ValueError with a line number during iteration."""
    count = patterns = 0
    for number, path in numbered_warm_paths(BytesIO(content), MOST_LISTED_PATHS):
        count, patterns = count + 1, patterns + is_pattern(path)
        if count > MOST_LISTED_PATHS:
            raise TooManyPathsError(f"{MOST_LISTED_PATHS} paths are the most: name folders, or use patterns")
        if patterns > MOST_WARM_PATTERNS:
            raise ValueError(
                f"line {number} of the list is one of more than {MOST_WARM_PATTERNS} with wildcards, which are the "
                "most: name folders or files, of which there may be more"
            )
        yield path
    if not count:
        raise ValueError("the list has no path: write one a line")


def check_list_size(size: int) -> None:
    """Raise ValueError if a file is too large to be a list."""
    if size > MOST_LIST_BYTES:
        most = format_bytes(MOST_LIST_BYTES)
        raise ValueError(f"the list has {format_bytes(size)}, and {most} are the most: name folders, or use patterns")


_LIST_RULE = cel_rule(
    "!self.startsWith('/') && !self.endsWith('/') && !self.contains('//') && "
    "!self.split('/').exists(name, name == '.' || name == '..')",
    f"warm.list: {LIST_HINT}",
)
WarmListName = Annotated[
    str,
    Field(min_length=1, max_length=MOST_WARM_PATH, json_schema_extra={"x-kubernetes-validations": [_LIST_RULE]}),
    AfterValidator(checked_list_name),
]
# A rule of the group that holds both fields.
LIST_OR_PATHS_RULE = cel_rule("!has(self.list) || !has(self.paths) || size(self.paths) == 0", LIST_OR_PATHS)

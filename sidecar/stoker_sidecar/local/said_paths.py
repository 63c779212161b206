"""What `stoker mount --warm` is to fetch: paths of the command line, then those of a list."""

import sys
from collections.abc import Sequence
from pathlib import Path

from stoker_api.warm_paths import (
    MOST_WARM_PATH,
    checked_warm_path,
    checked_warm_paths,
    listed_warm_paths,
)

_STANDARD_INPUT = "-"
# More than a Dataset may have, whose list lies in the cluster. Fetcher and agent tell each other all of it in one line.
_MOST_PATHS, _MOST_CHARACTERS = 20_000, 600_000


def warm_paths_of(paths: Sequence[str], listed: str | None) -> tuple[str, ...]:
    """Return the paths in their order, each once; ``listed``: a file of more of them. Raises ValueError."""
    found = tuple(dict.fromkeys([*paths, *(_of_list(listed) if listed is not None else ())]))
    if listed is not None and not found:
        raise ValueError(f"--list {listed} has no path: write one a line, or leave --list out")
    if len(found) > _MOST_PATHS or any(len(path) > MOST_WARM_PATH for path in found):
        raise ValueError(f"--warm takes {_MOST_PATHS} paths of {MOST_WARM_PATH} characters at most: name folders")
    if sum(map(len, found)) > _MOST_CHARACTERS:
        raise ValueError(f"--warm takes paths of {_MOST_CHARACTERS} characters together: name folders, or use patterns")
    return checked_warm_paths([checked_warm_path(path) for path in found])


def _of_list(listed: str) -> tuple[str, ...]:
    """Return what a list names. Raises ValueError."""
    try:
        if listed == _STANDARD_INPUT:
            return tuple(listed_warm_paths(sys.stdin.buffer, _MOST_PATHS))
        with Path(listed).open("rb") as file:
            return tuple(listed_warm_paths(file, _MOST_PATHS))
    except OSError as error:
        raise ValueError(f"--list {listed}: {error.strerror or error}") from error
    except ValueError as error:
        raise ValueError(f"--list {listed}: {error}") from error

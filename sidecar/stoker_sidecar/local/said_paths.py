"""What `stoker mount --warm` is to fetch: paths of the command line, then those of a list."""

import sys
from collections.abc import Sequence
from pathlib import Path

from stoker_api.warm_paths import (
    MOST_WARM_PATH,
    MOST_WARM_PATHS,
    checked_warm_path,
    checked_warm_paths,
    listed_warm_paths,
)

_STANDARD_INPUT = "-"


def warm_paths_of(paths: Sequence[str], listed: str | None) -> tuple[str, ...]:
    """Return the paths in their order, each once; ``listed``: a file of more of them. Raises ValueError."""
    found = tuple(dict.fromkeys([*paths, *(_of_list(listed) if listed is not None else ())]))
    if listed is not None and not found:
        raise ValueError(f"--list {listed} has no path: write one a line, or leave --list out")
    if len(found) > MOST_WARM_PATHS or any(len(path) > MOST_WARM_PATH for path in found):
        raise ValueError(f"--warm takes {MOST_WARM_PATHS} paths of {MOST_WARM_PATH} characters at most: name folders")
    return checked_warm_paths([checked_warm_path(path) for path in found])


def _of_list(listed: str) -> tuple[str, ...]:
    """Return what a list names. Raises ValueError."""
    try:
        if listed == _STANDARD_INPUT:
            return tuple(listed_warm_paths(sys.stdin.buffer))
        with Path(listed).open("rb") as file:
            return tuple(listed_warm_paths(file))
    except OSError as error:
        raise ValueError(f"--list {listed}: {error.strerror or error}") from error
    except ValueError as error:
        raise ValueError(f"--list {listed}: {error}") from error

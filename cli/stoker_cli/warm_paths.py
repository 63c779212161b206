"""The paths that `stoker warm` is given, by words and by a file, checked before the cluster is asked."""

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from stoker_api.warm_list import MOST_LISTED_PATHS, checked_list_name
from stoker_api.warm_paths import (
    MOST_WARM_PATH,
    MOST_WARM_PATHS,
    TooManyPathsError,
    checked_warm_path,
    checked_warm_paths,
    listed_warm_paths,
)
from stoker_cli.errors import CliError

WRONG_USAGE = 2


def read(paths: Sequence[str], listed: Iterable[bytes] | None) -> tuple[str, ...] | None:
    """Return the paths in their order, each once; None where none are given. Raises CliError with a sentence."""
    try:
        return _checked(tuple(dict.fromkeys([*paths, *listed_warm_paths(listed or ())])), has_list=listed is not None)
    except TooManyPathsError as error:
        raise CliError(too_many(getattr(listed, "name", "")), WRONG_USAGE) from error
    except ValueError as error:
        raise CliError(str(error), WRONG_USAGE) from error


def too_many(listed: str = "") -> str:
    """Say what to do with more paths than a Dataset's spec may have. ``listed``: where they are listed."""
    file = PurePath(listed).name
    key = f"lists/{file if file and not file.startswith('<') else 'warm.txt'}"  # <stdin> is none
    return (
        f"{MOST_WARM_PATHS} paths are the most of a Dataset's spec: name folders, or use patterns. A list of up to "
        f"{MOST_LISTED_PATHS} may be a file of the Dataset itself: put it into the bucket as {key} below the Dataset's "
        f"source.uri, run `stoker refresh DATASET --wait`, then `stoker warm DATASET --list-in-dataset {key}`"
    )


def read_list_name(name: str | None, chosen: tuple[str, ...] | None, *, everything: bool) -> str | None:
    """Return the path of a list that is in the Dataset; None where none is given. Raises CliError with a sentence."""
    if name is None:
        return None
    if chosen is not None or everything:
        only = "--list-in-dataset takes no paths, no --list and no --all: its lines are what is warmed"
        raise CliError(only, WRONG_USAGE)
    try:
        return checked_list_name(name)
    except ValueError as error:
        raise CliError(str(error), WRONG_USAGE) from error


def _checked(found: tuple[str, ...], *, has_list: bool) -> tuple[str, ...] | None:
    """Return the paths, once each and all of them are right. Raises ValueError."""
    if not found:
        if has_list:
            raise ValueError("the list has no path: give one a line, or leave --list out")
        return None
    if len(found) > MOST_WARM_PATHS:
        raise TooManyPathsError(f"{len(found)} paths")
    if long := next((path for path in found if len(path) > MOST_WARM_PATH), None):
        raise ValueError(f"a path has {len(long)} characters, and {MOST_WARM_PATH} are the most: name its folder")
    return checked_warm_paths([checked_warm_path(path) for path in found])

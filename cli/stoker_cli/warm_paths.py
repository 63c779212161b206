"""The paths that `stoker warm` is given, by words and by a file, checked before the cluster is asked."""

from collections.abc import Iterable, Sequence

from stoker_api.warm_paths import (
    MOST_WARM_PATH,
    MOST_WARM_PATHS,
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
    except ValueError as error:
        raise CliError(str(error), WRONG_USAGE) from error


def _checked(found: tuple[str, ...], *, has_list: bool) -> tuple[str, ...] | None:
    """Return the paths, once each and all of them are right. Raises ValueError."""
    if not found:
        if has_list:
            raise ValueError("the list has no path: give one a line, or leave --list out")
        return None
    if len(found) > MOST_WARM_PATHS:
        raise ValueError(f"{MOST_WARM_PATHS} paths are the most: name folders, or use patterns")
    if long := next((path for path in found if len(path) > MOST_WARM_PATH), None):
        raise ValueError(f"a path has {len(long)} characters, and {MOST_WARM_PATH} are the most: name its folder")
    return checked_warm_paths([checked_warm_path(path) for path in found])

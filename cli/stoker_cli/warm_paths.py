"""The paths that `stoker warm` is given, by words and by a file, checked before the cluster is asked."""

from collections.abc import Iterable, Sequence

from stoker_api.warm_paths import MOST_WARM_PATH, MOST_WARM_PATHS, checked_warm_path, checked_warm_paths
from stoker_cli.errors import CliError

WRONG_USAGE = 2


def read(paths: Sequence[str], listed: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return the paths in their order, each once; None where none are given. Raises CliError with a sentence."""
    lines = (line.rstrip("\r\n") for line in _bounded(listed or ()))
    found = tuple(dict.fromkeys([*paths, *(line for line in lines if line.strip() and not line.startswith("#"))]))
    if not found:
        if listed is not None:
            raise CliError("the list has no path: give one a line, or leave --list out", WRONG_USAGE)
        return None
    if len(found) > MOST_WARM_PATHS:
        raise CliError(f"{MOST_WARM_PATHS} paths are the most: name folders, or use patterns", WRONG_USAGE)
    try:
        return checked_warm_paths([_checked(path) for path in found])
    except ValueError as error:
        raise CliError(str(error), WRONG_USAGE) from error


def _checked(path: str) -> str:
    if len(path) > MOST_WARM_PATH:
        raise ValueError(f"a path has {len(path)} characters, and {MOST_WARM_PATH} are the most: name its folder")
    return checked_warm_path(path)


def _bounded(lines: Iterable[str]) -> Iterable[str]:
    """Yield lines up to a few more than may be: a file of millions is refused before it is in memory."""
    for number, line in enumerate(lines):
        if number > 10 * MOST_WARM_PATHS:
            raise CliError(f"{MOST_WARM_PATHS} paths are the most: name folders, or use patterns", WRONG_USAGE)
        yield line

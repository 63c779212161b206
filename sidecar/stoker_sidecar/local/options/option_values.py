"""Checks values of the command line: paths to fetch, plug-ins, rules, and orders. All raise ValueError."""

import sys
from collections.abc import Sequence
from pathlib import Path

from stoker_api.datasets.warm_paths import MOST_WARM_PATH, checked_warm_path, checked_warm_paths, listed_warm_paths

_STANDARD_INPUT = "-"
# More than a Dataset's limit, whose list is stored in the cluster. Fetcher and agent exchange all of it in one line.
_MOST_PATHS, _MOST_CHARACTERS = 20_000, 600_000


def warm_paths_of(paths: Sequence[str], listed: str | None) -> tuple[str, ...]:
    """Return the paths in order, each once. ``listed`` is a file with further paths. Raises ValueError."""
    found = tuple(dict.fromkeys([*paths, *(_of_list(listed) if listed is not None else ())]))
    if listed is not None and not found:
        raise ValueError(f"--list {listed} has no path: write one a line, or leave --list out")
    if len(found) > _MOST_PATHS or any(len(path) > MOST_WARM_PATH for path in found):
        raise ValueError(f"--warm takes {_MOST_PATHS} paths of {MOST_WARM_PATH} characters at most: name folders")
    if sum(map(len, found)) > _MOST_CHARACTERS:
        raise ValueError(f"--warm takes paths of {_MOST_CHARACTERS} characters together: name folders, or use patterns")
    return checked_warm_paths([checked_warm_path(path) for path in found])


def _of_list(listed: str) -> tuple[str, ...]:
    """Return the paths of a list. Raises ValueError."""
    try:
        if listed == _STANDARD_INPUT:
            return tuple(listed_warm_paths(sys.stdin.buffer, _MOST_PATHS))
        with Path(listed).open("rb") as file:
            return tuple(listed_warm_paths(file, _MOST_PATHS))
    except OSError as error:
        raise ValueError(f"--list {listed}: {error.strerror or error}") from error
    except ValueError as error:
        raise ValueError(f"--list {listed}: {error}") from error


def plugins_of(given: Sequence[str]) -> tuple[str, ...]:
    """Return the names of plug-ins, all of which are installed. Raises ValueError."""
    if not given:
        return ()
    from stoker_plugins.discovery import installed_plugins
    from stoker_tuning.frameworks.answers import parse_names

    names = parse_names(",".join(given))
    known = {one.name for one in installed_plugins() if not one.refused}
    for name in names:
        if name not in known:
            raise ValueError(f"--plugins {name}: is not installed; there are {', '.join(sorted(known))}")
    return names


def tuning_of(path: Path | None, plugins: tuple[str, ...]) -> Path | None:
    """Return the file after validating it. Raises ValueError."""
    if path is None:
        return None
    # Imported late: rules, documents and YAML are a third of this command's imports, and most mounts have no such file.
    from stoker_sidecar.local.agent.tuning_file import documents_of, read_tuning_file

    read_tuning_file(path, documents_of(plugins))
    return path.absolute()


def sampling_of(given: str) -> str:
    """Return the validated order. Raises ValueError."""
    if not given:
        return ""
    # Imported late: only mounts with an order need orders and YAML.
    from stoker_sidecar.local.options.said_sampling import read_sampling_option

    return read_sampling_option(given)

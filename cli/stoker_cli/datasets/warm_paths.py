"""Checks of the paths of `stoker warm`, from arguments and from a file."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from stoker_api.datasets.dataset import MOST_WARM_NODES, Dataset
from stoker_api.datasets.warm_list import checked_list_name
from stoker_api.datasets.warm_paths import (
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
    """Return the paths in order without duplicates, or None if none are given. Raises CliError."""
    try:
        return _checked(tuple(dict.fromkeys([*paths, *listed_warm_paths(listed or ())])), has_list=listed is not None)
    except TooManyPathsError as error:
        raise CliError(too_many(getattr(listed, "name", "")), WRONG_USAGE) from error
    except ValueError as error:
        raise CliError(str(error), WRONG_USAGE) from error


def too_many(listed: str = "") -> str:
    """Return the error message for more paths than a spec may have. ``listed``: the name of their file."""
    file = PurePath(listed).name
    key = f"lists/{file if file and not file.startswith('<') else 'warm.txt'}"  # <stdin> is no file name
    return (
        f"More than {MOST_WARM_PATHS} paths. Use folders or patterns, or upload the list as {key} below source.uri, "
        f"then run `stoker refresh DATASET --wait` and `stoker warm DATASET --list-in-dataset {key}`."
    )


def read_list_name(name: str | None, chosen: tuple[str, ...] | None, *, everything: bool) -> str | None:
    """Return the path of a list inside the Dataset, or None if none is given. Raises CliError."""
    if name is None:
        return None
    if chosen is not None or everything:
        only = "--list-in-dataset selects the paths. Remove PATH arguments, --list and --all."
        raise CliError(only, WRONG_USAGE)
    try:
        return checked_list_name(name)
    except ValueError as error:
        raise CliError(str(error), WRONG_USAGE) from error


def _checked(paths: tuple[str, ...], *, has_list: bool) -> tuple[str, ...] | None:
    """Return the checked paths. Raises ValueError."""
    if not paths:
        if has_list:
            raise ValueError("The list has no paths. Write one per line, or omit --list.")
        return None
    if len(paths) > MOST_WARM_PATHS:
        raise TooManyPathsError(f"{len(paths)} paths")
    if long := next((path for path in paths if len(path) > MOST_WARM_PATH), None):
        raise ValueError(f"A path has {len(long)} characters, but the limit is {MOST_WARM_PATH}. Use its folder.")
    return checked_warm_paths([checked_warm_path(path) for path in paths])


_NAMED = 5


@dataclass(frozen=True)
class WarmRequest:
    """Changes to spec.warm. None keeps a field, and an empty tuple removes it.

    ``listed``: path of a list inside the Dataset. Paths replace a list, and a list replaces paths.
    """

    paths: tuple[str, ...] | None = None
    listed: str | None = None
    nodes: tuple[str, ...] | None = None
    pages: bool | None = None

    def changes(self) -> dict[str, object]:
        """Return the fields to patch. None removes a field."""
        out: dict[str, object] = {}
        if self.paths is not None:
            out |= {"paths": list(self.paths) or None, "list": None}
        if self.listed is not None:
            out |= {"paths": None, "list": self.listed}
        if self.nodes is not None:
            out["nodes"] = list(self.nodes) or None
        if self.pages is not None:
            out["pages"] = self.pages or None
        return out


def check_applied(request: WarmRequest, dataset: Dataset) -> None:
    """Raise CliError if the CRDs of an older release dropped the list from the spec."""
    if request.listed is not None and dataset.spec.warm.list != request.listed:
        raise CliError(
            "The CRDs in this cluster have no spec.warm.list, so all files are fetched. Run `stoker pause "
            f"{dataset.metadata.name}`, then upgrade Stoker's chart."
        )


def read_nodes(given: str | None, *, anywhere: bool) -> tuple[str, ...] | None:
    """Return the names of --nodes without duplicates, or None if it is not given. Raises CliError."""
    if given is None:
        return () if anywhere else None
    if anywhere:
        raise CliError("--nodes and --any-node exclude each other. Use one of them.", WRONG_USAGE)
    names = tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    if not names:
        raise CliError("--nodes is empty. Use --nodes a,b, or --any-node to clear it.", WRONG_USAGE)
    if len(names) > MOST_WARM_NODES:
        raise CliError(
            f"--nodes has {len(names)} names, but the limit is {MOST_WARM_NODES}. Use cache.nodeSelector and labels.",
            WRONG_USAGE,
        )
    return names


def check_nodes(named: tuple[str, ...] | None, existing: Collection[str]) -> None:
    """Raise CliError if a named node has no NodeCache. ``existing``: nodes with one, empty if not readable."""
    unknown = [name for name in named or () if name not in existing]
    if not existing or not unknown:
        return
    choices = ", ".join(sorted(existing)[:_NAMED]) + (", ..." if len(existing) > _NAMED else "")
    raise CliError(f"No sidecar runs on {', '.join(unknown[:_NAMED])}. Choose from {choices}.", WRONG_USAGE)

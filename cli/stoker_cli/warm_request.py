"""What `stoker warm` is asked for, checked before anything is written: paths, nodes, pages."""

from collections.abc import Collection
from dataclasses import dataclass

from stoker_api.dataset import MOST_WARM_NODES, Dataset
from stoker_cli.errors import CliError
from stoker_cli.warm_paths import WRONG_USAGE

_NAMED = 5


@dataclass(frozen=True)
class WarmRequest:
    """Changes to spec.warm. None leaves a field as it is; an empty tuple takes it away.

    ``listed``: the file of the Dataset that lists the paths. What says which part is warmed takes the place of what
    said it before.
    """

    paths: tuple[str, ...] | None = None
    listed: str | None = None
    nodes: tuple[str, ...] | None = None
    pages: bool | None = None

    def changes(self) -> dict[str, object]:
        """Return the fields to patch; None for those to take away."""
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


def check_taken(request: WarmRequest, found: Dataset) -> None:
    """Raise CliError where a cluster whose CRDs are of an earlier release has dropped what it does not know."""
    if request.listed is not None and found.spec.warm.list != request.listed:
        raise CliError(
            "the CRDs of this cluster know no spec.warm.list, so all of it is warmed: `stoker pause "
            f"{found.metadata.name}` holds it; upgrade Stoker's chart there"
        )


def read_nodes(given: str | None, *, anywhere: bool) -> tuple[str, ...] | None:
    """Return the names of --nodes, each once; None where it is not given. Raises CliError with a sentence."""
    if given is None:
        return () if anywhere else None
    if anywhere:
        raise CliError("--nodes and --any-node contradict each other: give one of them", WRONG_USAGE)
    found = tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    if not found:
        raise CliError("--nodes names none: write --nodes a,b, or --any-node to take the names away", WRONG_USAGE)
    if len(found) > MOST_WARM_NODES:
        raise CliError(f"{MOST_WARM_NODES} nodes are the most: use cache.nodeSelector and labels", WRONG_USAGE)
    return found


def check_nodes(named: tuple[str, ...] | None, known: Collection[str]) -> None:
    """Raise CliError where a node is named that holds no data. ``known``: those that do; empty: not to be seen."""
    unknown = [name for name in named or () if name not in known]
    if not known or not unknown:
        return
    there = ", ".join(sorted(known)[:_NAMED]) + (", ..." if len(known) > _NAMED else "")
    raise CliError(f"no node that holds data is named {', '.join(unknown[:_NAMED])}: there are {there}", WRONG_USAGE)

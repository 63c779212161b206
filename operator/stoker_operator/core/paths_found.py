"""Whether what a Dataset says of which part of it is warmed names something on its nodes."""

from stoker_api.dataset import Warm
from stoker_api.names import ConditionType, Reason
from stoker_api.nodecache import NodeError
from stoker_api.warm_paths import WarmPathsStatus
from stoker_operator.core.conditions import ConditionSet
from stoker_operator.core.figures import Figures
from stoker_operator.core.warm_parts import knows_no_list


def set_paths_found(out: ConditionSet, warm: Warm, figures: Figures) -> None:
    """Say whether all paths name something; nothing where there are none, or that is not known yet."""
    part, one = figures.part, "line" if warm.list is not None else "path"
    if (error := _list_error(warm, figures)) is not None:
        out.set(ConditionType.PATHS_FOUND, False, Reason.WARM_LIST_INVALID, error.message)
    elif part is not None and part.unmatched:
        out.set(ConditionType.PATHS_FOUND, False, Reason.PATH_NOT_FOUND, unmatched_sentence(warm, part))
    elif part is not None:
        found = f"every {one} of {warm.part_field} names something"
        out.set(ConditionType.PATHS_FOUND, True, Reason.PATHS_FOUND, found)


def unmatched_sentence(warm: Warm, part: WarmPathsStatus) -> str:
    """Write which paths name nothing, and what to do."""
    named = ", ".join(f"'{path}'" for path in part.unmatched_paths)
    more = part.unmatched - len(part.unmatched_paths)
    others = f" and {more} more" if more > 0 else ""
    return (
        f"{warm.part_field}: {named}{others} name nothing in this version: paths are below the Dataset's folder, and "
        "upper and lower case differ; correct them"
    )


def outdated_nodes(warm: Warm, figures: Figures) -> list[str]:
    """Return the nodes that take the list for a path, which is all that they have fetched, by name."""
    if warm.list is None:
        return []
    reports = ((name, state.reported) for name, state in figures.targets.items())
    return sorted(name for name, row in reports if row is not None and knows_no_list(row, warm.told_paths))


def outdated_sentence(node: str) -> str:
    """Say of such a node what becomes of it, and what to do."""
    return f"{node}: its sidecar is of a release that knows no warm.list, and warms nothing: upgrade it"


def _list_error(warm: Warm, figures: Figures) -> NodeError | None:
    """Return what a node says of a list that cannot be followed; all say the same, as all have the same file."""
    if warm.list is None:
        return None
    errors = (state.summary.error for _, state in sorted(figures.targets.items()))
    return next((one for one in errors if one is not None and one.reason == Reason.WARM_LIST_INVALID), None)

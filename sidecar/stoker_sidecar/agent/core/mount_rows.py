"""Which volumes a node's status names, where pods have more than it has room for. Pure."""

from collections import Counter
from collections.abc import Sequence

from stoker_api.node_storage import MOST_MOUNTS, MountPhase, NodeMount
from stoker_sidecar.agent.core.workload_rows import chosen_fairly

_What = tuple[str, str, str, MountPhase]


def told_mounts(rows: Sequence[NodeMount], most: int = MOST_MOUNTS) -> tuple[NodeMount, ...]:
    """Choose ``most`` of them, each namespace's first ones first.

    Of a namespace's those come first by which the operator decides what stays and what is asked for: one of each
    Dataset, version and phase. A pod may have thousands of volumes of one.
    """
    if len(rows) <= most:
        return tuple(rows)
    seen: Counter[_What] = Counter()
    turns: dict[str, int] = {}
    for row in rows:
        what = (row.dataset_namespace, row.dataset, row.version, row.phase)
        turns[row.volume_id] = seen[what]
        seen[what] += 1
    in_turn = sorted(rows, key=lambda row: turns[row.volume_id])
    return chosen_fairly(in_turn, lambda row: row.pod_namespace, most)

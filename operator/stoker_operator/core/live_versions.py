"""Which versions of a Dataset somebody needs: pods that mount them or will, and jobs whose workers are to agree."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from stoker_api.trainingjob import JobPhase, TrainingJob
from stoker_operator.core.catalog import CatalogEntry
from stoker_operator.core.node_states import NodeState
from stoker_operator.core.usage import Use
from stoker_operator.core.views import ClusterView

MOST_OLDER = 8  # versions of a Dataset that a node fetches beside the current one
_FINISHED = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED})


def pinned_by_jobs(view: ClusterView) -> Mapping[str, frozenset[str]]:
    """Return, by key of a Dataset, the versions that TrainingJobs which have not ended gave their workers.

    Only of TrainingJobs whose namespace the Dataset admits, as with pods.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for training in view.training_jobs.values():
        rows = training.status.datasets if training.status.phase not in _FINISHED else ()
        for row in rows:
            dataset = view.datasets.get(f"{row.namespace}/{row.name}")
            if dataset is not None and CatalogEntry.of(dataset).admits(training.metadata.namespace):
                found[dataset.key].add(row.version)
    return {key: frozenset(versions) for key, versions in found.items()}


def is_queued(training: TrainingJob) -> bool:
    """Tell whether a queue holds a job. One that a person suspended waits for that person."""
    return training.status.phase is JobPhase.SUSPENDED and not training.spec.suspend


def queued_datasets(view: ClusterView) -> frozenset[str]:
    """Return the keys of the Datasets of TrainingJobs that a queue holds: they have no pods yet, and will run next.

    Only of namespaces that the Dataset admits, as with pods.
    """
    found: set[str] = set()
    for training in view.training_jobs.values():
        if not is_queued(training):
            continue
        home = training.metadata.namespace
        named = (view.datasets.get(f"{one.namespace or home}/{one.name}") for one in training.spec.datasets)
        found |= {one.key for one in named if one is not None and CatalogEntry.of(one).admits(home)}
    return frozenset(found)


def _known_versions(states: Mapping[str, NodeState], uses: Iterable[Use]) -> frozenset[str]:
    """Return the versions of a Dataset that some node has something of: anyone may write any text into a pod."""
    here = {version for state in states.values() for version in versions_of(state)}
    return frozenset(here | {use.version for use in uses if use.mounted}) - {""}


def versions_of(state: NodeState) -> frozenset[str]:
    """Return the versions that a node has something of."""
    row = state.reported
    if row is None:
        return frozenset()
    return frozenset({row.version, *row.retained}) - {""}


def uses_by_node(uses: Iterable[Use]) -> Mapping[str, list[Use]]:
    """Return the uses of a Dataset by their nodes: there may be thousands of either."""
    found: dict[str, list[Use]] = defaultdict(list)
    for use in uses:
        found[use.node].append(use)
    return dict(found)


def live_versions(
    states: Mapping[str, NodeState], uses: Sequence[Use], pinned: frozenset[str], current: str
) -> frozenset[str]:
    """Return the versions beside the current one that somebody needs and some node has something of."""
    needed = (pinned | {use.version for use in uses}) - {"", current}
    return needed & _known_versions(states, uses) if needed else needed


def older_versions(uses: Iterable[Use], wanted: frozenset[str], live: frozenset[str]) -> tuple[str, ...]:
    """Return what a node is to fetch beside the current version: what pods on their way to it will mount.

    ``uses``: of the Dataset on this node. ``wanted``: versions for which held pods would go there. ``live``: those that
    there are.
    """
    coming = {use.version for use in uses if not use.mounted}
    return tuple(sorted((coming | wanted) & live)[:MOST_OLDER])

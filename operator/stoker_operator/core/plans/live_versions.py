"""Versions of a Dataset in use: mounted by pods, requested by coming pods, or fixed for the workers of a job."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from stoker_api.jobs.trainingjob import JobPhase, TrainingJob
from stoker_operator.core.views.catalog import CatalogEntry
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.node_states import NodeState
from stoker_operator.core.views.usage import Use

MOST_OLDER = 8  # older versions of a Dataset that a node fetches in addition to the current one
_FINISHED = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED})


def pinned_by_jobs(view: ClusterView) -> Mapping[str, frozenset[str]]:
    """Return the versions that unfinished TrainingJobs gave their workers, by Dataset key.

    Only TrainingJobs in namespaces that the Dataset admits count, as with pods.
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
    """Return True if a queue holds a job. A job that a person suspended is not queued."""
    return training.status.phase is JobPhase.SUSPENDED and not training.spec.suspend


def queued_datasets(view: ClusterView) -> frozenset[str]:
    """Return the keys of Datasets that queued TrainingJobs name. These jobs have no pods yet and run next.

    Only namespaces that the Dataset admits count, as with pods.
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
    """Return the versions that some node has data of. A version in a pod may be any text."""
    here = {version for state in states.values() if not state.found for version in versions_of(state)}
    return frozenset(here | {use.version for use in uses if use.mounted}) - {""}


def versions_of(state: NodeState) -> frozenset[str]:
    """Return the versions that a node has data of."""
    row = state.reported
    if row is None:
        return frozenset()
    return frozenset({row.version, *row.retained}) - {""}


def uses_by_node(uses: Iterable[Use]) -> Mapping[str, list[Use]]:
    """Group the uses of a Dataset by node. There may be thousands of both."""
    found: dict[str, list[Use]] = defaultdict(list)
    for use in uses:
        found[use.node].append(use)
    return dict(found)


def live_versions(
    states: Mapping[str, NodeState], uses: Sequence[Use], pinned: frozenset[str], current: str
) -> frozenset[str]:
    """Return the versions in use, other than the current one, that some node has data of."""
    needed = (pinned | {use.version for use in uses}) - {"", current}
    return needed & _known_versions(states, uses) if needed else needed


def older_versions(uses: Iterable[Use], wanted: frozenset[str], live: frozenset[str]) -> tuple[str, ...]:
    """Return the versions that a node fetches in addition to the current one, for pods that come to it.

    ``uses``: uses of the Dataset on this node. ``wanted``: versions of gated pods that would go there. ``live``:
    versions that exist.
    """
    coming = {use.version for use in uses if not use.mounted}
    return tuple(sorted((coming | wanted) & live)[:MOST_OLDER])

"""Who uses which dataset: the mounts that nodes report, and unfinished pods that name it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stoker_operator.core.views import ClusterView, PodView

PODS_NAMED = 5  # pods that a sentence names before it only counts


@dataclass(frozen=True, slots=True)
class Use:
    """One pod's use of a dataset; ``node`` is empty while the pod has none, ``version`` until it is mounted."""

    namespace: str
    pod: str
    node: str = ""
    version: str = ""
    on_node: bool = False  # True: a row of a NodeCache, so the node itself says so


def find_uses(view: ClusterView) -> Mapping[str, tuple[Use, ...]]:
    """Find the uses of each Dataset, by key, one a pod and node, in a stable order."""
    found: dict[str, dict[tuple[str, str], Use]] = {}
    for key, use in (*_named(view), *_mounted(view)):
        # A mount row says more than the pod's spec does, so it comes last and wins.
        found.setdefault(key, {})[(use.namespace, use.pod)] = use
    return {key: tuple(uses[pod] for pod in sorted(uses)) for key, uses in found.items()}


def _named(view: ClusterView) -> Iterator[tuple[str, Use]]:
    for pod in view.pods.values():
        if pod.finished or not (pod.volumes or pod.claims):
            continue
        for key in _keys_of(pod, view):
            yield key, Use(pod.namespace, pod.name, pod.node)


def _keys_of(pod: PodView, view: ClusterView) -> Iterator[str]:
    yield from pod.volumes
    for claim in pod.claims:
        key = f"{pod.namespace}/{claim}"
        if key in view.datasets or key in view.invalid_datasets:
            yield key


def _mounted(view: ClusterView) -> Iterator[tuple[str, Use]]:
    for name, cache in view.node_caches.items():
        node = view.nodes.get(name)
        for row in cache.status.mounts:
            pod_exists = f"{row.pod_namespace}/{row.pod}" in view.pods
            # A node that stopped answering cannot take back its rows: then the pod's existence decides.
            if pod_exists or (node is not None and node.ready):
                use = Use(row.pod_namespace, row.pod, name, row.version, on_node=True)
                yield f"{row.dataset_namespace}/{row.dataset}", use


def pods_sentence(uses: tuple[Use, ...]) -> str:
    """Write ``3 pods: team/a on node-1, team/b``: the first five by name, then a count."""
    named = [f"{use.namespace}/{use.pod}" + (f" on {use.node}" if use.node else "") for use in uses[:PODS_NAMED]]
    more = f" and {len(uses) - PODS_NAMED} more" if len(uses) > PODS_NAMED else ""
    return f"{len(uses)} pod{'s' if len(uses) != 1 else ''}: {', '.join(named)}{more}"

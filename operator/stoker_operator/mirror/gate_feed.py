"""Feeds the mirror's changes since the last pass to gating."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from stoker_api.datasets.dataset import Dataset
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.classes.class_limits import Limited
from stoker_operator.core.gating.gating import Gating
from stoker_operator.core.kueue.kueue_objects import expected_pods, queued_by
from stoker_operator.core.plans.admission import admit
from stoker_operator.core.views.cluster import InvalidDataset, InvalidTrainingJob, NodeView, PodView
from stoker_operator.mirror.state import ClusterState

Seen = Callable[[str, PodView | None], PodView | None]


class GateFeed:
    """Collects changed keys and passes them to gating in one batch, so that a pass decides on one moment.

    ``seen(key, view)`` returns the pod as gating should see it: a release under way counts as done.
    """

    def __init__(self, state: ClusterState, seen: Seen) -> None:
        self._state: Final = state
        self._seen: Final = seen
        self._sidecars: Final[dict[str, dict[str, PodView]]] = {}  # by node and key
        self._heard_since = 0.0
        # Dicts keep the order of the changes: gating gets the earliest first.
        self._datasets: dict[str, None] = {}
        self._caches: dict[str, None] = {}
        self._nodes: dict[str, None] = {}
        self._pods: dict[str, None] = {}
        self._expected: Mapping[str, PodView] = {}
        self._queue_changed = False
        for pod in state.pods.snapshot().values():
            self._put_sidecar(None, pod)
        self.reload()
        state.datasets.listen(self._dataset_changed)
        state.dataset_classes.listen(lambda old, new: self._datasets.update(dict.fromkeys(state.datasets.snapshot())))
        state.node_caches.listen(self._cache_changed)
        state.nodes.listen(self._node_changed)
        state.pods.listen(self._pod_changed)
        state.training_jobs.listen(self._job_changed)
        state.leaving.listen(lambda node: self._nodes.update({node: None}))

    def reload(self) -> None:
        """Mark every object as changed."""
        self._datasets = dict.fromkeys(self._state.datasets.snapshot())
        self._caches = dict.fromkeys(self._state.node_caches.snapshot())
        self._nodes = dict.fromkeys(self._state.nodes.snapshot())
        self._pods = dict.fromkeys(self._state.pods.snapshot())
        self._expected, self._queue_changed = {}, True

    def touch(self, pod: str) -> None:
        """Mark a pod as changed because ``seen`` returns something different for it."""
        self._pods[pod] = None

    def drain(self, gating: Gating, now: float) -> None:
        """Pass all changes to ``gating``. ``now``: seconds since the epoch."""
        self._hear()
        datasets, caches, nodes, pods = self._datasets, self._caches, self._nodes, self._pods
        self._datasets, self._caches, self._nodes, self._pods = {}, {}, {}, {}
        classes = self._state.dataset_classes.snapshot() if datasets else {}
        for key in datasets:
            dataset = self._state.datasets.get(key)
            if isinstance(dataset, Dataset):
                taken = admit(dataset, classes)
                dataset = taken.dataset if isinstance(taken, Limited) else taken
            gating.put_dataset(key, dataset)
        for name in caches:
            gating.put_cache(name, self._state.node_caches.get(name))
        for name in nodes:
            node = self._state.nodes.get(name)
            gating.put_node(name, None if node is None else self._whole(node), now)
        for key in pods:
            gating.put_pod(key, self._seen(key, self._state.pods.get(key)))
        self._tell_expected(gating)

    def _tell_expected(self, gating: Gating) -> None:
        """Pass on changes of the expected workers of queued jobs."""
        if not self._queue_changed:
            return
        self._queue_changed = False
        jobs = self._state.training_jobs.snapshot().values()
        before, now = self._expected, expected_pods(one for one in jobs if isinstance(one, TrainingJob))
        self._expected = now
        for key in sorted({*before, *now}):
            if before.get(key) != now.get(key):
                gating.put_pod(key, now.get(key))

    def _hear(self) -> None:
        """Recheck silent nodes after an outage of the API server: no node could report during it."""
        if self._heard_since == self._state.heard_since:
            return
        self._heard_since = self._state.heard_since
        silent = (name for name, node in self._state.nodes.snapshot().items() if not self._answers(node))
        self._nodes.update(dict.fromkeys(silent))

    def _answers(self, node: NodeView) -> bool:
        return node.ready and self._sidecar_is_ready(node.name)

    def _sidecar_is_ready(self, node: str) -> bool:
        return any(pod.ready and not pod.deleting for pod in self._sidecars.get(node, {}).values())

    def _whole(self, node: NodeView) -> NodeView:
        ready = self._sidecar_is_ready(node.name)
        since = (pod.not_ready_since for pod in self._sidecars.get(node.name, {}).values())
        return replace(
            node,
            sidecar_ready=ready,
            sidecar_silent_since=self._state.heard(0.0 if ready else max(since, default=0.0)),
            not_ready_since=self._state.heard(node.not_ready_since),
            leaving=self._state.leaving.reason(node),
        )

    def _dataset_changed(self, old: Dataset | InvalidDataset | None, new: Dataset | InvalidDataset | None) -> None:
        one = new or old
        if one is not None:
            self._datasets[f"{one.metadata.namespace}/{one.metadata.name}"] = None

    def _cache_changed(self, old: NodeCache | None, new: NodeCache | None) -> None:
        one = new or old
        if one is not None:
            self._caches[one.metadata.name] = None

    def _node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        one = new or old
        if one is not None:
            self._nodes[one.name] = None

    def _job_changed(
        self, old: TrainingJob | InvalidTrainingJob | None, new: TrainingJob | InvalidTrainingJob | None
    ) -> None:
        self._queue_changed = self._queue_changed or queued_by(old) != queued_by(new)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        one = new or old
        if one is not None:
            self._pods[one.key] = None
        self._put_sidecar(old, new)

    def _put_sidecar(self, old: PodView | None, new: PodView | None) -> None:
        for pod in (old, new):
            if pod is None or not pod.sidecar or pod.namespace != self._state.own_namespace:
                continue
            on_node = self._sidecars.setdefault(pod.node, {})
            on_node.pop(pod.key, None)
            if pod is new:
                on_node[pod.key] = pod
            elif not on_node:
                del self._sidecars[pod.node]
            self._nodes[pod.node] = None

"""All decisions about Datasets, kept across passes. Each pass updates only changes.

A property test compares the result with a decision from scratch (tests/support/plain_decision.py).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from stoker_api.datasets.origin import origin_names
from stoker_operator.core.changed_keys import changed_keys, changed_values
from stoker_operator.core.classes.tuning import says_something
from stoker_operator.core.incremental.dataset_decision import (
    Decision,
    PlanFacts,
    decide_deletions,
    make_plan,
    tuning_of,
)
from stoker_operator.core.incremental.entries import IncrementalEntries, IncrementalNodes
from stoker_operator.core.incremental.node_state_cache import Moved, NodeStateCache
from stoker_operator.core.incremental.placements import IncrementalPlacements, PlacementNews
from stoker_operator.core.incremental.uses import IncrementalUses
from stoker_operator.core.plans.giving_nodes import address_of
from stoker_operator.core.plans.listing import NOT_ASKED, AskedListing
from stoker_operator.core.plans.live_versions import pinned_by_jobs, queued_datasets
from stoker_operator.core.plans.plan import DatasetPlan, frozen_uids, site_of
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.due_times import DueTimes
from stoker_operator.core.views.failed_objects import FailedObjects
from stoker_operator.core.views.node_states import alive, fell_silent

Wanted = Mapping[str, frozenset[str]]
Versions = Mapping[str, Mapping[str, frozenset[str]]]
AskedAnew = Callable[[], Collection[str] | None]


class IncrementalDecision:
    """The decision about all Datasets. An error affects only its own Dataset."""

    def __init__(self) -> None:
        self._view = ClusterView()
        self._wanted: Wanted = {}
        self._facts: Mapping[str, PlanFacts] = {}
        self._silent: frozenset[tuple[str, bool]] = frozenset()  # silent nodes, and whether each is lost
        self._unready: Final[set[str]] = set()
        self._states: Final = NodeStateCache()
        self._uses: Final = IncrementalUses()
        self._placements: Final = IncrementalPlacements(self._states)
        self._plans: Final[dict[str, DatasetPlan]] = {}
        self._volatile: Final[set[str]] = set()  # keys of plans to decide again in the next pass
        self._named: Final[set[str]] = set()  # keys of Datasets with warm.nodes
        self._entries: Final = IncrementalEntries(self._states)
        self._nodes: Final = IncrementalNodes(self._states, self._entries)
        self._pinned: Mapping[str, frozenset[str]] = {}
        self._queued: frozenset[str] = frozenset()
        self._keys: Final[dict[str, str]] = {}  # by UID
        self._closed: frozenset[str] = frozenset()  # keys whose entries must not change
        self._times: Final = DueTimes()
        self._deleting: Final[set[str]] = set()  # keys of Datasets in deletion
        self._spoiled: Collection[str] = ()  # keys in the last pass
        # By UID. The NodeCache and status may be written much later. Until then, do not ask again.
        self.asked: Final[dict[str, AskedListing]] = {}
        self.chosen: Final = self._placements.chosen

    def decide(
        self,
        view: ClusterView,
        wanted: Wanted,
        now: float,
        may_be_given: Callable[[DatasetPlan], bool] = lambda _: True,
        versions: Versions = MappingProxyType({}),
        asked_anew: AskedAnew = lambda: None,
    ) -> Decision:
        """Decide everything about Datasets.

        ``wanted``: nodes that held pods need, by Dataset key. ``versions``: older versions of held pods, by key and
        node. ``may_be_given(plan)``: False while the Dataset's entries must not change. ``asked_anew()``: keys of
        unchanged plans for which to call ``may_be_given`` again, or None for all. The result is valid until the next
        pass.
        """
        old, spoiled = self._view, FailedObjects()
        self._view = view
        caches = changed_keys(old.node_caches, view.node_caches)
        came = {node for node in caches if (node in old.node_caches) != (node in view.node_caches)}
        nodes = self._changed_nodes(old, now) | came
        self._view = view = replace(view, unready=self._unready)
        pods = changed_keys(old.pods, view.pods)
        moved = self._states.update(view.node_caches, caches)
        datasets = _changed_datasets(old, view)
        used = self._uses.update(view, pods, {*caches, *nodes}, datasets)
        asked = {*used, *changed_values(self._wanted, wanted)}
        self._wanted = dict(wanted)
        news = PlacementNews(view, now, self._uses.uses, wanted, {*datasets, *asked}, nodes, caches, moved)
        placed = set[str]()
        self._placements.update(news, spoiled, placed)
        jobs = bool(changed_keys(old.training_jobs, view.training_jobs))
        stale = {*datasets, *used, *placed, *self._volatile, *self._times.take(now), *self._retuned(old)}
        elsewhere = came | _readdressed(old, view, {*nodes, *caches}) | _rezoned(old, view, nodes)
        if not stale.issuperset(view.datasets):  # at a start, all are stale
            stale |= self._on_nodes(nodes | elsewhere)
        stale |= self._slowed(old) | self._changed_facts(versions, jobs=jobs or bool(datasets))
        stale |= self._moved_or_tuned(old, moved, used_anew=jobs or bool(pods))
        self._plan(stale, spoiled, now)
        self._note_deleting(datasets)
        deletions = decide_deletions(view, self._states, self._uses.uses, spoiled, self._deleting)
        closed = self._find_closed(may_be_given, stale, asked_anew())
        told = self._tell(stale | (closed ^ self._closed), closed, moved, elsewhere, spoiled)
        self._closed = closed
        self._volatile.update(spoiled, closed)
        frozen = frozen_uids(view, {*spoiled, *closed})
        plans = self._nodes.update(view, {*told, *caches, *nodes, *self._shared(old)}, frozen)
        changed = {*stale, *self._deleting, *spoiled, *self._spoiled}
        self._spoiled = tuple(spoiled)
        return Decision(view, self._states, self._plans, deletions, plans, self._times.first(), spoiled, changed)

    # Find decisions to repeat

    def _changed_nodes(self, old: ClusterView, now: float) -> set[str]:
        """Return changed nodes, and nodes that became or are no longer silent or lost."""
        changed = set(changed_values(old.nodes, self._view.nodes))
        for name in changed:
            node = self._view.nodes.get(name)
            if node is None or node.ready:
                self._unready.discard(name)
            else:
                self._unready.add(name)
        unready = ((name, self._view.nodes[name]) for name in self._unready)
        silent = frozenset((name, not alive(node, now)) for name, node in unready if fell_silent(node, now))
        changed.update(name for name, _ in silent ^ self._silent)
        self._silent = silent
        return changed

    def _on_nodes(self, nodes: Collection[str]) -> set[str]:
        """Return the Datasets that these nodes have or should have, and Datasets with warm.nodes."""
        found = set(self._named) if nodes else set()
        roles = ((key, plan.placement.roles.keys()) for key, plan in self._plans.items())
        found.update(key for key, placed in roles if not placed.isdisjoint(nodes))  # also before the write
        for node in nodes:
            found.update(self._entries.by_node.get(node, ()))
            found.update(self._keys[uid] for uid in self._states.on_node(node) if uid in self._keys)
        return found

    def _slowed(self, old: ClusterView) -> set[str]:
        """Return the Datasets whose bucket started or ended a slowdown."""
        buckets = old.shares.slowed ^ self._view.shares.slowed
        if not buckets:
            return set()
        named = ((key, origin_names(plan.dataset.spec.source)) for key, plan in self._plans.items())
        return {key for key, names in named if names is not None and names.bucket in buckets}

    def _shared(self, old: ClusterView) -> Collection[str]:
        """Return the nodes whose limits at object stores changed."""
        before, now = old.shares, self._view.shares
        if before.beginning != now.beginning:
            return self._view.nodes.keys()
        return changed_values(before.by_node, now.by_node)

    def _retuned(self, old: ClusterView) -> set[str]:
        if old.tuning == self._view.tuning:
            return set()
        plans = self._plans.items()
        return {key for key, plan in plans if plan.tuning != tuning_of(self._view, plan.dataset)}

    def _changed_facts(self, versions: Versions, *, jobs: bool) -> set[str]:
        """Update the inputs from jobs and held pods. Return the affected Datasets."""
        if jobs:
            self._pinned, self._queued = pinned_by_jobs(self._view), queued_datasets(self._view)
        keys = {*self._pinned, *self._queued, *versions}
        facts = {
            key: PlanFacts(key in self._queued, self._pinned.get(key, frozenset()), versions.get(key, {}))
            for key in keys
        }
        old, self._facts = self._facts, facts
        return {key for key in {*old, *facts} if old.get(key) != facts.get(key)}

    def _moved_or_tuned(self, old: ClusterView, moved: Iterable[str], *, used_anew: bool) -> set[str]:
        """Return the Datasets with these UIDs. ``used_anew``: add those in namespaces of TrainingJobs with tuning."""
        found = {self._keys[uid] for uid in moved if uid in self._keys}
        return found | self._of_tuned_homes(old) if used_anew else found

    def _of_tuned_homes(self, old: ClusterView) -> set[str]:
        """Return the Datasets in namespaces with current or earlier TrainingJobs that set tuning."""
        jobs = (*old.training_jobs.values(), *self._view.training_jobs.values())
        homes = {job.metadata.namespace for job in jobs if says_something(job.spec.tuning)}
        return {key for key in self._plans if key.partition("/")[0] in homes} if homes else set()

    # Repeat the decisions

    def _plan(self, stale: Collection[str], spoiled: FailedObjects, now: float) -> None:
        for key in sorted(stale):
            placement, old = self._placements.placements.get(key), self._plans.pop(key, None)
            if old is not None:
                self._keys.pop(old.dataset.metadata.uid, None)
                if placement is None or self._view.datasets[key].metadata.uid != old.dataset.metadata.uid:
                    self.asked.pop(old.dataset.metadata.uid, None)
            self._volatile.discard(key)
            self._named.discard(key)
            self._times.put(key, ())
            plan = None
            if placement is not None:
                uses, facts = self._uses.of(key), self._facts.get(key, PlanFacts())
                asked = self.asked.get(self._view.datasets[key].metadata.uid, NOT_ASKED)
                work = partial(make_plan, self._view, key, placement, uses, self._states, facts, now, asked)
                plan = spoiled.attempt(key, work)
            if plan is not None:
                if old is not None:
                    plan.share_nodes(old)
                self._keep(key, plan, now)
            elif old is not None:
                self._states.forget(old.dataset.metadata.uid)

    def _note_deleting(self, datasets: Iterable[str]) -> None:
        for key in datasets:
            meta = self._view.meta(key)
            if meta is not None and meta.deletion_timestamp:
                self._deleting.add(key)
            else:
                self._deleting.discard(key)

    def _find_closed(
        self, may_be_given: Callable[[DatasetPlan], bool], stale: Collection[str], anew: Collection[str] | None
    ) -> frozenset[str]:
        """Return the keys of Datasets whose entries must not change. Each key may cost a scan of its nodes."""
        asked = self._plans if anew is None else {*stale, *anew}
        closed = {key for key in self._closed if key in self._plans and key not in asked}
        for key in asked:
            plan = self._plans.get(key)
            if plan is not None and not may_be_given(plan):
                closed.add(key)
        return frozenset(closed)

    def _keep(self, key: str, plan: DatasetPlan, now: float) -> None:
        self._plans[key] = plan
        self._keys[plan.dataset.metadata.uid] = key
        listing = plan.listing
        if listing.id:
            self.asked[plan.dataset.metadata.uid] = AskedListing.of(listing)
        if listing.asked_now or listing.blocked or listing.answered_at == now:
            self._volatile.add(key)
        if plan.dataset.spec.warm.nodes:
            self._named.add(key)
        self._times.put(key, plan.times(now))

    def _tell(
        self,
        stale: Collection[str],
        closed: Collection[str],
        moved: Moved,
        elsewhere: Collection[str],
        spoiled: FailedObjects,
    ) -> set[str]:
        """Update the entries of these Datasets. Return the nodes with a changed entry."""
        nodes = set[str]()
        for key in sorted(stale):
            plan = self._plans.get(key)
            if plan is None or key in closed:
                nodes |= self._entries.forget(key)
            else:
                rows = moved.get(plan.dataset.metadata.uid, {})
                nodes |= self._entries.tell(self._view, plan, rows, elsewhere, spoiled)
        return nodes


def _changed_datasets(old: ClusterView, view: ClusterView) -> set[str]:
    """Return the keys of Datasets whose objects or terms changed."""
    found = {*changed_keys(old.datasets, view.datasets), *changed_values(old.terms, view.terms)}
    return found.union(changed_keys(old.invalid_datasets, view.invalid_datasets))


def _readdressed(old: ClusterView, view: ClusterView, nodes: Iterable[str]) -> set[str]:
    """Return the nodes whose address changed or disappeared."""
    return {node for node in nodes if address_of(old, node) != address_of(view, node)}


def _rezoned(old: ClusterView, view: ClusterView, nodes: Iterable[str]) -> set[str]:
    """Return the nodes that joined, left, or moved to another zone or rack. Their peers change."""
    return {node for node in nodes if site_of(old, node) != site_of(view, node)}

"""What nodes are told of each Dataset, kept from pass to pass: what changed on one node is told to that one alone."""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from stoker_api.node_dataset import NodeDataset
from stoker_operator.core.class_limits import NO_TERMS
from stoker_operator.core.entry_making import EntryMaker, share_neighbours
from stoker_operator.core.held_states import HeldStates
from stoker_operator.core.manifest_hosts import manifest_hosts
from stoker_operator.core.neighbourhoods import Neighbourhood
from stoker_operator.core.plan import DatasetPlan, dividing, is_told, wants_warming
from stoker_operator.core.spoiled import Spoiled
from stoker_operator.core.tuning import says_something
from stoker_operator.core.views import ClusterView

_AT_ONCE = 20  # entries of one step: a millisecond or two
Together = Mapping[str, Neighbourhood]


@dataclass(frozen=True, slots=True)
class _ToldNodes:
    """What was decided about a Dataset when its nodes were told last."""

    plan: DatasetPlan
    shared: tuple[object, ...]
    together: Together


class KeptEntries:
    """The entries that each node should have, by node and by the Datasets' keys."""

    def __init__(self, states: HeldStates) -> None:
        self.by_node: Final[dict[str, dict[str, NodeDataset]]] = {}
        self._states: Final = states
        self._told: Final[dict[str, _ToldNodes]] = {}

    def tell(
        self, view: ClusterView, plan: DatasetPlan, moved: Collection[str], news: Collection[str], spoiled: Spoiled
    ) -> Generator[None, None, set[str]]:
        """Make the entries of one Dataset, in steps; gives the nodes that are told something else now.

        ``moved``: nodes whose state of it changed; ``news``: nodes that others reach elsewhere now, or not as before.
        Where that fails it is noted, and nothing is left of its entries.
        """
        key = plan.dataset.key
        old = self._told.get(key)
        found: list[_ToldNodes] = []
        if not (yield from spoiled.steps(key, partial(_told, view, plan, old, news, found))):
            return self.forget(key)
        new = self._told[key] = found[0]
        yield
        changed = set[str]()
        if old is not None and old.plan.nodes() is not plan.nodes():
            changed |= {node for node in set(old.plan.nodes()).difference(plan.nodes()) if self._take(node, key)}
        nodes: Sequence[str] = (
            plan.nodes() if old is None or _is_other(view, old, new) else sorted(_nodes(old.plan, plan, moved))
        )
        maker = EntryMaker(view, plan, self._states, new.together)
        for first in range(0, len(nodes), _AT_ONCE):
            told = spoiled.attempt(key, partial(self._tell, maker, plan, nodes[first : first + _AT_ONCE]))
            if told is None:
                return changed | self.forget(key)
            changed |= told
            yield
        return changed

    def forget(self, key: str) -> set[str]:
        """Take away the entries of one Dataset; gives the nodes that had one."""
        old = self._told.pop(key, None)
        return {node for node in old.plan.nodes() if self._take(node, key)} if old is not None else set()

    def share(self, node: str) -> None:
        """Keep the entries that a node was given already, in place of those of ours that say the same."""
        entries = self.by_node.get(node, {})
        for key, entry in entries.items():
            there = self._states.get(entry.uid, node).desired
            if there is not None and there is not entry and there == entry:
                entries[key] = there

    def _tell(self, maker: EntryMaker, plan: DatasetPlan, nodes: Collection[str]) -> set[str]:
        key, changed = plan.dataset.key, set[str]()
        for node in nodes:
            if not is_told(plan, node, self._states):
                changed |= {node} if self._take(node, key) else set()
                continue
            entry, entries = maker.entry(node), self.by_node.setdefault(node, {})
            known = entries.get(key)
            if known is None or (known is not entry and known != entry):
                if entries:
                    share_neighbours(entry, entries[next(reversed(entries))])
                entries[key] = entry
                changed.add(node)
        return changed

    def _take(self, node: str, key: str) -> bool:
        entries = self.by_node.get(node, {})
        gone = entries.pop(key, None)
        if not entries:
            self.by_node.pop(node, None)
        return gone is not None


def _told(
    view: ClusterView, plan: DatasetPlan, old: _ToldNodes | None, news: Collection[str], found: list[_ToldNodes]
) -> Iterator[None]:
    """Decide in steps what all nodes of a Dataset are told together, and add it to ``found``."""
    meta, listing, spec = plan.dataset.metadata, plan.listing, plan.dataset.spec
    warms, roles = wants_warming(plan), plan.placement.roles
    shared = (
        (roles, plan.givers.nodes),
        warms,
        (meta.uid, meta.generation, meta.annotations, bool(meta.deletion_timestamp)),
        (spec, view.terms.get(plan.dataset.key, NO_TERMS), plan.tuning.told),
        (listing.id, listing.node, listing.version, listing.holders, manifest_hosts(view, listing)),
        (plan.placement.starved, plan.live, plan.due),
        _tuned_by_jobs(view, plan),
    )
    if old is not None and old.shared[:2] == shared[:2] and not any(node in roles for node in news):
        together = old.together
    else:
        together = yield from dividing(view, plan)
    found.append(_ToldNodes(plan, shared, together))


def _is_other(view: ClusterView, old: _ToldNodes, new: _ToldNodes) -> bool:
    """Tell whether more changed than what one node reports or is asked for."""
    return (
        old.shared != new.shared
        or (old.together is not new.together and old.together != new.together)
        or bool(new.plan.live)  # who has which older version is told to all that fetch one
        or _tuned_by_jobs(view, new.plan)
    )


def _tuned_by_jobs(view: ClusterView, plan: DatasetPlan) -> bool:
    """Tell whether a TrainingJob may have a word in how the Dataset is read on some node."""
    home = plan.dataset.metadata.namespace
    jobs = (one for one in view.training_jobs.values() if one.metadata.namespace == home)
    return any(says_something(job.spec.tuning) for job in jobs)


def _nodes(old: DatasetPlan, new: DatasetPlan, moved: Collection[str]) -> set[str]:
    found = {*moved}
    if old.nodes() is not new.nodes():
        found |= set(new.nodes()).difference(old.nodes())  # such as those of one that is cleaned no longer
    if old.uses != new.uses:
        found |= {node for node in {*old.uses_at, *new.uses_at} if old.uses_at.get(node) != new.uses_at.get(node)}
    found |= {node for node in {*old.wanted, *new.wanted} if old.wanted.get(node) != new.wanted.get(node)}
    return found.intersection(new.nodes())

"""What becomes of every NodeCache, kept from pass to pass: a node is looked at again where it, or its plan, changed."""

from collections.abc import Generator, Iterable, Mapping
from typing import Final

from stoker_operator.core.held_states import HeldStates
from stoker_operator.core.kept_entries import KeptEntries
from stoker_operator.core.plan import NodeCacheWrite, NodePlans, settle_node
from stoker_operator.core.report_pace import report_step
from stoker_operator.core.views import ClusterView, InvalidDataset

_AT_ONCE = 4  # nodes of one step: a millisecond or two
Frozen = Mapping[str, InvalidDataset | None]


class KeptNodes:
    """As the second half of ``plan_nodes``, brought up to date by ``update``."""

    def __init__(self, states: HeldStates, entries: KeptEntries) -> None:
        self._states: Final = states
        self._entries: Final = entries
        self._writes: Final[dict[str, NodeCacheWrite]] = {}
        self._left_out: Final[dict[str, tuple[str, ...]]] = {}
        self._frozen: Frozen = {}
        self._step = 0

    def update(self, view: ClusterView, changed: Iterable[str], frozen: Frozen) -> Generator[None, None, NodePlans]:
        """Look at the nodes that changed, in steps, and at those that hold what is frozen otherwise than it was."""
        stale = set(changed)
        for uid in {*frozen, *self._frozen}:
            if uid not in frozen or uid not in self._frozen or frozen[uid] != self._frozen[uid]:
                stale.update(self._states.of_dataset(uid))
        self._frozen = frozen
        if (step := report_step(len(view.nodes))) != self._step:
            self._step = step
            stale.update(view.nodes)
        for count, node in enumerate(stale):
            if not count % _AT_ONCE:
                yield
            self._settle(view, node)
        yield
        left_out: dict[str, list[str]] = {}
        for node in sorted(self._left_out):
            for uid in self._left_out[node]:
                left_out.setdefault(uid, []).append(node)
        return NodePlans(tuple(self._writes[node] for node in sorted(self._writes)), left_out)

    def _settle(self, view: ClusterView, node: str) -> None:
        self._writes.pop(node, None)
        self._left_out.pop(node, None)
        if node not in view.nodes:
            return
        self._entries.share(node)
        wanted = self._entries.by_node.get(node, {})
        found = settle_node(view, node, [wanted[key] for key in sorted(wanted)], self._frozen)
        if found.write is not None:
            self._writes[node] = found.write
        if found.left_out:
            self._left_out[node] = found.left_out

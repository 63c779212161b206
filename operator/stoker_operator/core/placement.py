"""Which nodes should hold which Dataset, in the plain form: all of them anew."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from stoker_api.dataset import Dataset
from stoker_operator.core.class_limits import NO_TERMS
from stoker_operator.core.node_roles import Placement
from stoker_operator.core.node_room import FillRoom, KeepRoom, Ledger, Selections
from stoker_operator.core.node_states import NodeStates
from stoker_operator.core.placement_draft import NO_NODES, Draft, by_age_within
from stoker_operator.core.placement_turns import Turn, charge_refused, pod_nodes, turn_of
from stoker_operator.core.quota import QuotaBook, QuotaShare, Tenant
from stoker_operator.core.spoiled import Spoiled
from stoker_operator.core.steps import finished
from stoker_operator.core.usage import Use
from stoker_operator.core.views import ClusterView

Chosen = Mapping[str, frozenset[str]]  # nodes by UID of a Dataset


def place(
    view: ClusterView,
    states: NodeStates,
    uses: Mapping[str, tuple[Use, ...]],
    wanted: Mapping[str, frozenset[str]],
    now: float,
    spoiled: Spoiled,
    chosen: Chosen = MappingProxyType({}),
) -> Mapping[str, Placement]:
    """Place all Datasets, by key. Pure; the same view gives the same answer, and acting on it changes it no further.

    One that cannot be placed is left out, and noted in ``spoiled``. ``chosen``: replicas of earlier decisions, of which
    the NodeCaches may say nothing yet.
    """
    selections, book = Selections(view, now), QuotaBook()
    charge_refused(view, states, book)
    turns: list[tuple[Turn, Draft]] = []

    def draft(dataset: Dataset) -> None:
        pods = pod_nodes(view, uses.get(dataset.key, ()), wanted.get(dataset.key, frozenset()))
        held, selection = states.of_dataset(dataset.metadata.uid), selections.of(dataset)
        meta, terms = dataset.metadata, view.terms.get(dataset.key, NO_TERMS)
        share = QuotaShare(book, Tenant(terms.name, meta.namespace), meta.name, terms)
        turns.append((turn_of(dataset, bool(pods)), Draft(dataset, held, pods, selection, share, now)))

    for key, dataset in view.datasets.items():
        spoiled.attempt(key, partial(draft, dataset))
    drafts = by_age_within([one for _, one in sorted(turns, key=lambda pair: pair[0])])
    ledger = Ledger(view)
    steps = (_keep_at_once, partial(_fill_at_once, chosen), Draft.count_idle, Draft.drop_idle)
    for step in steps:
        # Last in line gives up its idle data first.
        for one in reversed(drafts) if step is Draft.drop_idle else drafts:
            if one.dataset.key not in spoiled:
                spoiled.attempt(one.dataset.key, partial(step, one, ledger))
    return {one.dataset.key: one.result() for one in drafts if one.dataset.key not in spoiled}


def _keep_at_once(draft: Draft, ledger: KeepRoom) -> None:
    for _ in draft.keep(ledger):
        pass


def _fill_at_once(chosen: Chosen, draft: Draft, ledger: FillRoom) -> None:
    finished(draft.fill(ledger, chosen.get(draft.dataset.metadata.uid, NO_NODES)))

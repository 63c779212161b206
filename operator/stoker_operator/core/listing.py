"""Which node lists a source, when it is asked again, and which version that makes current."""

from collections.abc import Mapping
from dataclasses import dataclass

from stoker_api.dataset import Dataset, RefreshPolicy
from stoker_api.meta import parse_duration
from stoker_api.nodecache import ListingResult
from stoker_api.times import parse_time
from stoker_operator.core.node_states import NodeState, NodeStates, alive
from stoker_operator.core.placement import Placement, Role
from stoker_operator.core.selection import fingerprint, first_fingerprint, is_fingerprint
from stoker_operator.core.views import ClusterView

# A node gives up on errors that trying again cannot mend, such as a missing bucket. People mend those without touching
# the Dataset, so it is asked again once a minute: one LIST request.
RETRY_FAILED = 60.0


@dataclass(frozen=True, slots=True)
class ListingState:
    """The state of listing one dataset."""

    id: str = ""  # "<fingerprint of the source>-<milliseconds since the epoch when it was asked>"; empty: nobody can
    node: str = ""
    result: ListingResult | None = None  # the answer to this id, None while it is awaited
    version: str = ""  # what new mounts get: the newest good listing
    answered_at: float = 0.0  # seconds since the epoch at which the operator saw the good answer
    holders: tuple[str, ...] = ()  # nodes that can hand out the version's manifest, the lister first
    look_again: float | None = None  # when this decision may change by time alone
    blocked: bool = False  # a listing is due and no node can do it
    source: str = ""  # the fingerprint of the source that ``id`` was asked for


def new_id(dataset: Dataset, now: float) -> str:
    """Make a listing id that remembers for which source and when it was asked."""
    return f"{fingerprint(dataset)}-{int(now * 1000)}"


def asked_at(listing_id: str) -> float:
    """Return seconds since the epoch at which this listing was asked for; 0.0 for an id of unknown form."""
    _, _, millis = listing_id.partition("-")
    return int(millis) / 1000 if millis.isdecimal() else 0.0


def asked_for(dataset: Dataset, listing_id: str) -> str:
    """Return the fingerprint of the source that this listing was asked for; "" when that is not known.

    Ids of the first releases carry a hash of all fields. While it is the spec's, the status is told what it stands for,
    and counts from then on: so an upgrade lists nothing again, and another Secret after it does not either.
    """
    carried, _, _ = listing_id.partition("-")
    if is_fingerprint(carried):
        return carried
    if dataset.status.listing_id == listing_id and dataset.status.listing_source:
        return dataset.status.listing_source
    return fingerprint(dataset) if carried == first_fingerprint(dataset) else ""


def decide_listing(
    view: ClusterView, dataset: Dataset, placement: Placement, states: NodeStates, now: float
) -> ListingState:
    """Keep the listing that was asked for, or ask for another one. The NodeCaches are the truth, the status a copy."""
    held = states.of_dataset(dataset.metadata.uid)
    listing_id, node = _current(dataset, held)
    result = _answer(held, listing_id)
    version = (result.version if result else "") or dataset.status.version
    answered = _answered_at(dataset, listing_id, result, now)
    holders = _holders(view, held, version, node, now)
    again = _due(dataset, listing_id, result, answered)
    # A lister that lives mends a lost manifest itself: it lists again under the same id.
    lister_lives = node in view.node_caches and alive(view.nodes.get(node), now)
    lost = bool(version) and not holders and not lister_lives
    silent = not answered and not (lister_lives and view.nodes[node].sidecar_ready)
    source = asked_for(dataset, listing_id)
    stale = source != fingerprint(dataset)
    ask = stale or lost or silent or (again is not None and again <= now)
    if not ask or dataset.metadata.deletion_timestamp:
        return ListingState(listing_id, node, result, version, answered, holders, again, source=source)
    lister = choose_lister(view, dataset, placement, holders, node)
    if not lister:
        return ListingState(listing_id, node, result, version, answered, holders, blocked=True, source=source)
    return ListingState(new_id(dataset, now), lister, version=version, holders=holders, source=fingerprint(dataset))


def choose_lister(
    view: ClusterView, dataset: Dataset, placement: Placement, holders: tuple[str, ...], last: str
) -> str:
    """Return the last lister if it still can, else a node that has a version, else one that will hold it, else any.

    "" if none.
    """
    able = {name for name, node in view.nodes.items() if node.ready and node.sidecar_ready and name in view.node_caches}
    selected = [name for name in sorted(able) if view.nodes[name].matches(dataset.spec.cache.node_selector)]
    ranked = (last, *holders, *placement.nodes(Role.REPLICA), *placement.nodes(Role.USER, Role.IDLE), *selected)
    return next((name for name in ranked if name in selected), "")


def _current(dataset: Dataset, held: Mapping[str, NodeState]) -> tuple[str, str]:
    asked = [(h.desired.listing_id, node) for node, h in held.items() if h.desired and h.desired.listing_id]
    known = (dataset.status.listing_id, dataset.status.listing_node)
    return max((*asked, known), key=lambda pair: (asked_at(pair[0]), pair in asked))


def _answer(held: Mapping[str, NodeState], listing_id: str) -> ListingResult | None:
    for state in held.values():
        listing = state.reported.listing if state.reported else None
        if listing and listing_id and listing.id == listing_id:
            return listing
    return None


def _answered_at(dataset: Dataset, listing_id: str, result: ListingResult | None, now: float) -> float:
    """Read when it was answered by the operator's own clock, since nodes' clocks differ.

    Kept in the status, so that it survives a restart.
    """
    known = parse_time(dataset.status.listed_at)
    if dataset.status.version and known >= asked_at(listing_id) and dataset.status.listing_id == listing_id:
        return known
    return now if result and result.version else 0.0


def _due(dataset: Dataset, listing_id: str, result: ListingResult | None, answered: float) -> float | None:
    if result and result.error and not result.error.temporary:
        return asked_at(listing_id) + RETRY_FAILED
    if answered and dataset.spec.refresh.policy is RefreshPolicy.FOLLOW:
        return answered + parse_duration(dataset.spec.refresh.interval)
    return None


def _holders(
    view: ClusterView, held: Mapping[str, NodeState], version: str, lister: str, now: float
) -> tuple[str, ...]:
    having = [name for name, h in held.items() if h.has_manifest(version) and alive(view.nodes.get(name), now)]
    return tuple(sorted(having, key=lambda name: (name != lister, name)))

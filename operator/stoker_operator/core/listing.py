"""Which node lists a source, when it is asked again, and which version that makes current."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from stoker_api.dataset import Dataset, RefreshPolicy
from stoker_api.meta import parse_duration
from stoker_api.nodecache import ListingResult
from stoker_api.times import parse_time
from stoker_operator.core.node_roles import Placement, Role
from stoker_operator.core.node_rules import NodeRule
from stoker_operator.core.node_states import NodeStates, alive
from stoker_operator.core.selection import fingerprint, first_fingerprint, is_fingerprint
from stoker_operator.core.views import ClusterView

# A node gives up on errors that trying again cannot mend, such as a missing bucket. People mend those without touching
# the Dataset, so it is asked again once a minute: one LIST request.
RETRY_FAILED = 60.0
MOST_HOLDERS = 8  # of the nodes that have a manifest, which are told to others; all may have it


@dataclass(frozen=True, slots=True)
class ListingState:
    """The state of listing one dataset."""

    id: str = ""  # "<fingerprint of the source>-<milliseconds since the epoch when it was asked>"; empty: nobody can
    node: str = ""
    result: ListingResult | None = None  # the answer to this id, None while it is awaited
    version: str = ""  # what new mounts get: the newest good listing
    answered_at: float = 0.0  # seconds since the epoch at which the operator saw the good answer
    holders: tuple[str, ...] = ()  # a few nodes that can hand out the version's manifest, the lister first
    look_again: float | None = None  # when this decision may change by time alone
    blocked: bool = False  # a listing is due and no node can do it
    asked_now: bool = False  # it was asked for at this moment, so the id is another one a moment later
    source: str = ""  # the fingerprint of the source that ``id`` was asked for


@dataclass(frozen=True, slots=True)
class AskedListing:
    """The listing that was asked for last, as the operator remembers it until the writes that say so are seen."""

    id: str = ""
    node: str = ""
    answered_at: float = 0.0


NOT_ASKED = AskedListing()


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
    view: ClusterView,
    dataset: Dataset,
    placement: Placement,
    states: NodeStates,
    now: float,
    asked: AskedListing = NOT_ASKED,
) -> ListingState:
    """Keep the listing that was asked for, or ask for another one. The NodeCaches are the truth, the status a copy.

    ``asked``: what was decided before, which may not be written yet.
    """
    uid = dataset.metadata.uid
    listing_id, node = _current(dataset, states.asked(uid), asked)
    result = _answer(states.answers(uid), listing_id)
    version = (result.version if result else "") or dataset.status.version
    answered = _answered_at(dataset, listing_id, result, asked, now)
    holders = _holders(view, states.with_manifest(uid, version), node, now)
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
    return ListingState(
        new_id(dataset, now), lister, version=version, holders=holders, source=fingerprint(dataset), asked_now=True
    )


def choose_lister(
    view: ClusterView, dataset: Dataset, placement: Placement, holders: tuple[str, ...], last: str
) -> str:
    """Return the last lister if it still can, else a node that has a version, else one that will hold it, else any.

    One that is about to go only where no other can; "" if none.
    """
    rule = NodeRule.of(dataset.spec.cache)

    def can(name: str) -> bool:
        node = view.nodes.get(name)
        ready = node is not None and node.ready and node.sidecar_ready and name in view.node_caches
        return ready and rule.selects(view.nodes[name])

    def stays(name: str) -> bool:
        return can(name) and not view.nodes[name].leaving

    ranked = (last, *holders, *placement.nodes(Role.REPLICA), *placement.nodes(Role.USER, Role.IDLE))
    first = next(filter(stays, ranked), "") or min(filter(stays, view.nodes), default="")
    return first or next(filter(can, ranked), "") or min(filter(can, view.nodes), default="")


def _current(dataset: Dataset, told: Mapping[str, str], asked: AskedListing) -> tuple[str, str]:
    pairs = [(listing_id, node) for node, listing_id in told.items()]
    known = (dataset.status.listing_id, dataset.status.listing_node)
    every = (*sorted(pairs), known, (asked.id, asked.node))
    return max(every, key=lambda pair: (asked_at(pair[0]), pair in pairs))


def _answer(answers: Mapping[str, ListingResult], listing_id: str) -> ListingResult | None:
    found = sorted(node for node, listing in answers.items() if listing_id and listing.id == listing_id)
    return answers[found[0]] if found else None


def _answered_at(
    dataset: Dataset, listing_id: str, result: ListingResult | None, asked: AskedListing, now: float
) -> float:
    """Read when it was answered by the operator's own clock, since nodes' clocks differ.

    Kept in the status, so that it survives a restart.
    """
    known = parse_time(dataset.status.listed_at)
    if dataset.status.version and known >= asked_at(listing_id) and dataset.status.listing_id == listing_id:
        return known
    if not (result and result.version):
        return 0.0
    return asked.answered_at if asked.id == listing_id and asked.answered_at else now


def _due(dataset: Dataset, listing_id: str, result: ListingResult | None, answered: float) -> float | None:
    if result and result.error and not result.error.temporary:
        return asked_at(listing_id) + RETRY_FAILED
    if answered and dataset.spec.refresh.policy is RefreshPolicy.FOLLOW:
        return answered + parse_duration(dataset.spec.refresh.interval)
    return None


def _holders(view: ClusterView, having: Sequence[str], lister: str, now: float) -> tuple[str, ...]:
    """Return the first few nodes that can hand out the manifest, the lister before all others."""
    at = bisect_left(having, lister)
    first = (lister,) if at < len(having) and having[at] == lister else ()
    others = (name for name in having if name != lister)
    living = (name for name in chain(first, others) if alive(view.nodes.get(name), now))
    return tuple(islice(living, MOST_HOLDERS))

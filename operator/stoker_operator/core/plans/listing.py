"""Decide which node lists a source, when to list again, and which version becomes current."""

import hashlib
import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from stoker_api import names
from stoker_api.datasets.dataset import Dataset, RefreshPolicy
from stoker_api.datasets.dataset_source import Source
from stoker_api.meta import parse_duration
from stoker_api.node_caches.node_dataset_status import ListingResult
from stoker_api.times import parse_time
from stoker_operator.core.placement.node_roles import Placement, Role
from stoker_operator.core.placement.node_rules import NodeRule
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.node_states import NodeStates, alive

# The format of fingerprints. A release that changes it uses a new prefix and still reads this one.
_FORM = "2."
_HASH_LENGTH = 12  # hexadecimal digits: enough to distinguish two specs of one Dataset
# The fields of a Source when fingerprints covered all of it. Later fields are not part of those hashes.
_FIRST_FIELDS = frozenset({"uri", "endpoint", "region", "addressingStyle", "credentials", "include", "exclude"})


def fingerprint(dataset: Dataset) -> str:
    """Hash the fields that select bytes: folder, endpoint, patterns, and the region if no endpoint is set.

    The annotation of `stoker refresh` counts too, as text instead of a time, because a laptop's clock wrote it.
    Credentials and the URL form decide whether a listing succeeds. They do not change its result.
    """
    source = dataset.spec.source
    selecting = {
        "uri": source.uri.removesuffix("/"),
        "endpoint": (source.endpoint or "").removesuffix("/"),
        "region": "" if source.endpoint else source.region,
        "include": sorted(set(source.include)),
        "exclude": sorted(set(source.exclude)),
    }
    return _FORM + _hash([selecting, _refresh(dataset)])


def is_fingerprint(text: str) -> bool:
    """Return True if a text has the format that ``fingerprint`` writes."""
    return text.startswith(_FORM)


def first_fingerprint(dataset: Dataset) -> str:
    """Hash the source as the first releases did, with the fields of that time."""
    return _hash([_first_fields(dataset.spec.source), _refresh(dataset)])


def _first_fields(source: Source) -> dict[str, object]:
    return {field: value for field, value in source.wire().items() if field in _FIRST_FIELDS}


def _refresh(dataset: Dataset) -> str:
    return dataset.metadata.annotations.get(names.ANNOTATION_REFRESH_REQUESTED, "")


def _hash(parts: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH]


# A node stops on errors that a retry cannot fix, such as a missing bucket. People fix those without a change to the
# Dataset, so the operator asks again once a minute. That costs one LIST request.
RETRY_FAILED = 60.0
MOST_HOLDERS = 8  # nodes with a manifest that are named to other nodes; more nodes may have it


@dataclass(frozen=True, slots=True)
class ListingState:
    """The state of listing one Dataset."""

    id: str = ""  # "<fingerprint of the source>-<milliseconds since the epoch of the request>"; empty: no node can list
    node: str = ""
    result: ListingResult | None = None  # the answer to this id, None until it arrives
    version: str = ""  # the version for new mounts: the newest good listing
    answered_at: float = 0.0  # seconds since the epoch at which the operator saw the good answer
    holders: tuple[str, ...] = ()  # a few nodes that can serve the version's manifest, the lister first
    look_again: float | None = None  # when time alone may change this decision
    blocked: bool = False  # a listing is due and no node can do it
    asked_now: bool = False  # requested in this pass, so the id differs a moment later
    source: str = ""  # the fingerprint of the source in the request ``id``


@dataclass(frozen=True, slots=True)
class AskedListing:
    """The last requested listing. The operator remembers it until it sees its own writes."""

    id: str = ""
    node: str = ""
    answered_at: float = 0.0
    version: str = ""  # the accepted answer, which does not change again

    @classmethod
    def of(cls, listing: ListingState) -> "AskedListing":
        """Return the part of a decision to remember."""
        version = listing.version if listing.answered_at else ""
        return cls(listing.id, listing.node, listing.answered_at, version)


NOT_ASKED = AskedListing()


def new_id(dataset: Dataset, now: float) -> str:
    """Make a listing id that contains the source's fingerprint and the time."""
    return f"{fingerprint(dataset)}-{int(now * 1000)}"


def asked_at(listing_id: str) -> float:
    """Return the request time in seconds since the epoch. Return 0.0 for an id of unknown form."""
    _, _, millis = listing_id.partition("-")
    return int(millis) / 1000 if millis.isdecimal() else 0.0


def asked_for(dataset: Dataset, listing_id: str) -> str:
    """Return the fingerprint of the source for this listing, or "" if it is unknown.

    Ids of the first releases contain a hash of all fields. While it matches the spec, the status stores the new
    fingerprint, which counts from then on. So neither an upgrade nor a later change of the Secret causes a listing.
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
    """Keep the requested listing, or request a new one. The NodeCaches are the truth, and the status is a copy.

    ``asked``: the previous decision, which may not be written yet.
    """
    uid = dataset.metadata.uid
    listing_id, node = _current(dataset, states.asked(uid), asked)
    result, taken = _answer(states.answers(uid), listing_id, node), _taken(dataset, listing_id, asked)
    other = bool(taken and result and result.version not in ("", taken))
    result = None if other else result
    version = taken or (result.version if result else "") or dataset.status.version
    answered = _answered_at(dataset, listing_id, result, asked, now)
    holders = _holders(view, states.with_manifest(uid, version), node, now)
    again = _due(dataset, listing_id, result, answered)
    if other and not holders:
        again = asked_at(listing_id) + RETRY_FAILED  # its listing is lost, and its new report is no answer to this id
    # A live lister repairs a lost manifest itself: it lists again under the same id.
    lister_lives = _may_tell(view, node) and alive(view.nodes.get(node), now)
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
    """Return the last lister if it can still list.

    Otherwise prefer a node with a version, then a placed node, then any. Choose a draining node only if no other node
    can list. Return "" if none can.
    """
    rule = NodeRule.of(dataset.spec.cache)

    def can(name: str) -> bool:
        node = view.nodes.get(name)
        ready = node is not None and node.ready and node.sidecar_ready and _may_tell(view, name)
        return ready and rule.selects(view.nodes[name])

    def stays(name: str) -> bool:
        return can(name) and not view.nodes[name].leaving

    known = (node for node in placement.nodes(Role.USER, Role.IDLE) if node not in placement.adopted)
    ranked = (last, *holders, *placement.nodes(Role.REPLICA), *known)
    first = next(filter(stays, ranked), "") or min(filter(stays, view.nodes), default="")
    return first or next(filter(can, ranked), "") or min(filter(can, view.nodes), default="")


def _current(dataset: Dataset, told: Mapping[str, str], asked: AskedListing) -> tuple[str, str]:
    pairs = [(listing_id, node) for node, listing_id in told.items()]
    known = (dataset.status.listing_id, dataset.status.listing_node)
    every = (*sorted(pairs), known, (asked.id, asked.node))
    return max(every, key=lambda pair: (asked_at(pair[0]), pair in pairs))


def _answer(answers: Mapping[str, ListingResult], listing_id: str, node: str) -> ListingResult | None:
    """Return the answer of the asked node. Ignore answers of other nodes."""
    answer = answers.get(node)
    return answer if answer is not None and listing_id and answer.id == listing_id else None


def _taken(dataset: Dataset, listing_id: str, asked: AskedListing) -> str:
    """Return the version that the operator accepted for this listing, or "" if there was none.

    It does not change again.
    """
    status = dataset.status
    if status.listing_id == listing_id and parse_time(status.listed_at) >= asked_at(listing_id) and status.version:
        return status.version
    return asked.version if asked.id == listing_id else ""


def _answered_at(
    dataset: Dataset, listing_id: str, result: ListingResult | None, asked: AskedListing, now: float
) -> float:
    """Return the time of the answer by the operator's own clock, because nodes' clocks differ.

    The status stores it, so it survives a restart.
    """
    known = parse_time(dataset.status.listed_at)
    if dataset.status.version and known >= asked_at(listing_id) and dataset.status.listing_id == listing_id:
        return known
    if asked.id == listing_id and asked.answered_at:
        return asked.answered_at
    return now if result and result.version else 0.0


def _due(dataset: Dataset, listing_id: str, result: ListingResult | None, answered: float) -> float | None:
    if result and result.error and not result.error.temporary:
        return asked_at(listing_id) + RETRY_FAILED
    if answered and dataset.spec.refresh.policy is RefreshPolicy.FOLLOW:
        return answered + parse_duration(dataset.spec.refresh.interval)
    return None


def _holders(view: ClusterView, having: Sequence[str], lister: str, now: float) -> tuple[str, ...]:
    """Return the first few nodes that can serve the manifest, starting with the lister."""
    at = bisect_left(having, lister)
    first = (lister,) if at < len(having) and having[at] == lister else ()
    others = (name for name in having if name != lister)
    living = (name for name in chain(first, others) if alive(view.nodes.get(name), now) and _may_tell(view, name))
    return tuple(islice(living, MOST_HOLDERS))


def _may_tell(view: ClusterView, name: str) -> bool:
    """Return True if a node has a NodeCache and other nodes take manifests from it."""
    cache = view.node_caches.get(name)
    return cache is not None and not cache.is_revoked

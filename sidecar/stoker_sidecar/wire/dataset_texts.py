"""Shortens the texts of many Datasets' status rows to a budget that namespaces share. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from stoker_api.meta import shortened
from stoker_api.node_caches.node_dataset_status import FailingReads, ListingResult, NodeDatasetStatus, NodeError


def fair_shares(demands: Mapping[str, int], room: int) -> dict[str, int]:
    """Return the share of each owner: an equal part of the room, or its demand if that is smaller.

    The remaining owners share the unused room. An owner whose demand is at most ``room`` / number of owners gets all of
    it.
    """
    shares: dict[str, int] = {}
    waiting = sorted(demands, key=lambda owner: (demands[owner], owner))
    for served, owner in enumerate(waiting):
        shares[owner] = min(demands[owner], max(0, room) // (len(waiting) - served))
        room -= shares[owner]
    return shares


# Maximum characters of all texts in a status, and bounds for one sentence.
MOST_TEXTS = 150_000
_LONGEST, _SHORTEST = 1024, 80
# Estimated characters of an item of each list, and the number of items in a shortened list.
_VERSION, _OLDER, _EXAMPLE = 70, 150, 100
_FEW = 5


def with_short_texts(rows: Sequence[NodeDatasetStatus], most: int = MOST_TEXTS) -> tuple[NodeDatasetStatus, ...]:
    """Cut sentences and lists of each namespace that exceeds its share of ``most`` characters.

    Object stores determine the length of their messages, and a node may have a thousand Datasets. Counting is cheap,
    but measuring a status with full texts would take a second.
    """
    demands: Counter[str] = Counter()
    sentences: Counter[str] = Counter()
    for row in rows:
        demands[row.namespace] += _demand(row)
        sentences[row.namespace] += _sentences(row)
    if demands.total() <= most:
        return tuple(rows)
    shares = fair_shares(demands, most)
    lengths = {
        namespace: max(_SHORTEST, min(_LONGEST, share // max(1, sentences[namespace])))
        for namespace, share in shares.items()
        if share < demands[namespace]
    }
    return tuple(_cut(row, lengths[row.namespace]) if row.namespace in lengths else row for row in rows)


def _sentences(row: NodeDatasetStatus) -> int:
    own = (
        (row.error is not None)
        + 2 * (row.failing_reads is not None)
        + (row.memory is not None and bool(row.memory.message))
    )
    listing = row.listing is not None and row.listing.error is not None
    return own + listing + (sum(version.error is not None for version in row.older) if row.older else 0)


def _demand(row: NodeDatasetStatus) -> int:
    lists = _VERSION * len(row.retained) + _OLDER * len(row.older)
    examples = _EXAMPLE * len(row.listing.skipped) if row.listing is not None else 0
    return _LONGEST * _sentences(row) + lists + examples


def _cut(row: NodeDatasetStatus, most: int) -> NodeDatasetStatus:
    if not _demand(row):
        return row
    older = (version.model_copy(update={"error": _cut_error(version.error, most)}) for version in row.older[:_FEW])
    memory = row.memory
    return row.model_copy(
        update={
            "error": _cut_error(row.error, most),
            "failing_reads": row.failing_reads and _cut_reads(row.failing_reads, most),
            "retained": row.retained[:_FEW],
            "older": tuple(older),
            "listing": row.listing and _cut_listing(row.listing, most),
            "memory": memory and memory.model_copy(update={"message": shortened(memory.message, most)}),
        }
    )


def _cut_listing(listing: ListingResult, most: int) -> ListingResult:
    few = listing.skipped[:_FEW]
    skipped = tuple(keys.model_copy(update={"example": shortened(keys.example, most)}) for keys in few)
    return listing.model_copy(update={"error": _cut_error(listing.error, most), "skipped": skipped})


def _cut_error(error: NodeError | None, most: int) -> NodeError | None:
    return error and error.model_copy(update={"message": shortened(error.message, most)})


def _cut_reads(reads: FailingReads, most: int) -> FailingReads:
    cut = {"path": shortened(reads.path, most), "message": shortened(reads.message, most)}
    return reads.model_copy(update=cut)

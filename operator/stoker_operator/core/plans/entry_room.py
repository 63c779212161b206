"""Select the Dataset entries that fit into one NodeCache. Namespaces share its bytes fairly. Pure."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from stoker_api.meta import stored_size
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.nodecache import NodeCache

# Bytes of a NodeCache's spec. etcd allows 1.5 MiB an object by default, and the status has a row for each Dataset too.
MOST_SPEC = 700_000
_MOST_OF_CHARACTER, _BESIDE = 6, 4  # JSON bytes of one character, and of a text apart from its characters
_ENTRY_SIZE = 900  # JSON bytes of an entry's field names and numbers
_PLAIN = re.compile(r"[A-Za-z0-9_./:@=*,+ -]*")  # characters of one byte each


def fitting(entries: Collection[NodeDataset], cache: NodeCache | None) -> list[NodeDataset]:
    """Return the entries that fit into one NodeCache.

    Usually all fit. Otherwise each namespace gets an equal share, less what it does not need. Within a share, entries
    that the node already has come first, then new ones by size.
    """
    if sum(map(_most_of, entries)) <= MOST_SPEC:
        return list(entries)
    sizes = {entry.uid: entry_size(entry) for entry in entries}
    if sum(sizes.values()) <= MOST_SPEC:
        return list(entries)
    known = {entry.uid: entry for entry in cache.spec.datasets if entry.uid in sizes} if cache else {}
    by_namespace = defaultdict[str, list[NodeDataset]](list)
    for entry in entries:
        by_namespace[entry.namespace].append(entry)
    rooms = _shares({namespace: sum(sizes[one.uid] for one in rows) for namespace, rows in by_namespace.items()})
    return [one for namespace, rows in by_namespace.items() for one in _within(rooms[namespace], rows, sizes, known)]


def _shares(wanted: Mapping[str, int]) -> dict[str, int]:
    """Divide the room equally. Unused parts go to namespaces that need more."""
    left, shares = MOST_SPEC, dict[str, int]()
    for done, namespace in enumerate(sorted(wanted, key=lambda name: (wanted[name], name))):
        shares[namespace] = min(wanted[namespace], left // (len(wanted) - done))
        left -= shares[namespace]
    return shares


def _within(
    room: int, entries: Iterable[NodeDataset], sizes: Mapping[str, int], known: Mapping[str, NodeDataset]
) -> list[NodeDataset]:
    """Return the entries of one namespace that fit into ``room`` bytes."""
    smallest_first = sorted(entries, key=lambda entry: (sizes[entry.uid], entry.uid))
    kept = dict[str, int]()
    for entry in smallest_first:
        if entry.uid in known and (size := min(sizes[entry.uid], entry_size(known[entry.uid]))) <= room:
            kept[entry.uid] = size
            room -= size
    out = list[NodeDataset]()
    for entry in smallest_first:
        more = sizes[entry.uid] - kept.get(entry.uid, 0)
        if more <= room:
            room -= more
            out.append(entry)
        elif entry.uid in kept:
            out.append(known[entry.uid])
    return out


def no_room_sentence(node: str) -> str:
    """Return the message for a node whose NodeCache has no room for a Dataset's entry."""
    return (
        f"{node} cannot get the current state of this Dataset: its NodeCache holds {MOST_SPEC // 1000} kB already; "
        "shorten warm.paths, source.include, source.exclude and access.namespaces, or reduce the number of its Datasets"
    )


def entry_size(entry: NodeDataset) -> int:
    """Return the bytes of an entry in the API server's database, including its comma."""
    return stored_size(entry.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True, mode="json")) + 1


def _most_of(entry: NodeDataset) -> int:
    """Return an upper bound of ``entry_size`` in a fifth of the time."""
    texts = list(filter(None, _texts(entry)))
    joined = "".join(texts)
    each = 1 if _PLAIN.fullmatch(joined) else _MOST_OF_CHARACTER
    return _ENTRY_SIZE + _BESIDE * len(texts) + each * len(joined)


def _texts(entry: NodeDataset) -> list[str | None]:
    source = entry.source
    lists = (
        source.include,
        source.exclude,
        entry.warm_paths,
        entry.allowed_namespaces,
        entry.retain,
        entry.manifest_hosts,
        entry.peers,
        entry.groups.links,
        entry.groups.names,
    )
    older = (text for one in entry.older for text in ("version", "manifestHosts", one.version, *one.manifest_hosts))
    named = (entry.namespace, entry.name, entry.uid, entry.version, entry.listing_id, entry.pages, entry.warm_by)
    tuning = (entry.tuning.profile, entry.tuning.template, entry.tuning.environment)
    credentials = source.credentials
    secret = credentials.secret_ref.name if credentials and credentials.secret_ref else ""
    account = credentials.service_account if credentials else ""
    texts = (source.uri, source.endpoint, source.region, secret, account, entry.refused, *tuning, *named)
    return [*texts, *chain(*lists, older)]

"""Which rows of Datasets one NodeCache has room for. Pure."""

import json
from collections.abc import Collection
from itertools import chain

from stoker_api.node_dataset import NodeDataset
from stoker_api.nodecache import NodeCache

# Bytes of a NodeCache's spec. etcd takes 1.5 MiB an object by default, and the status has a row for each Dataset too.
MOST_SPEC = 700_000
_MOST_OF_CHARACTER, _BESIDE = 6, 4  # bytes in JSON, of a character, and of a text beside its characters
_ENTRY_SIZE = 500  # of an entry's names, UID, digest, hosts and figures, in JSON


def fitting(entries: Collection[NodeDataset], cache: NodeCache | None) -> list[NodeDataset]:
    """Return the entries that one NodeCache has room for.

    All of them, nearly always. Else the largest stay as the node knows them, or away from a node that does not: a
    Dataset with long texts must not keep all others from their nodes.
    """
    if sum(map(_most_of, entries)) <= MOST_SPEC:
        return list(entries)
    sizes = {entry.uid: entry_size(entry) for entry in entries}
    if sum(sizes.values()) <= MOST_SPEC:
        return list(entries)
    known = {entry.uid: entry for entry in cache.spec.datasets if entry.uid in sizes} if cache else {}
    kept = {uid: min(sizes[uid], entry_size(entry)) for uid, entry in known.items()}
    left = MOST_SPEC - sum(kept.values())
    out: list[NodeDataset] = []
    for entry in sorted(entries, key=lambda entry: (sizes[entry.uid], entry.uid)):
        more = sizes[entry.uid] - kept.get(entry.uid, 0)
        if more <= left:
            left -= more
            out.append(entry)
        elif entry.uid in known:
            out.append(known[entry.uid])
    return out


def no_room_sentence(node: str) -> str:
    """Say that a node's NodeCache has no room for what it should be told of a Dataset."""
    return (
        f"{node} is not told of this Dataset as it is now: its NodeCache holds {MOST_SPEC // 1000} kB already; "
        "shorten warm.paths, source.include, source.exclude and access.namespaces, or let that node have fewer Datasets"
    )


def entry_size(entry: NodeDataset) -> int:
    """Return about how many bytes an entry takes in the API server's database, rather more than fewer."""
    return _ENTRY_SIZE + len(json.dumps(_texts(entry), ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _most_of(entry: NodeDataset) -> int:
    """Return what that is at most, in a tenth of the time."""
    texts = _texts(entry)
    return _ENTRY_SIZE + _BESIDE * (len(texts) + 1) + _MOST_OF_CHARACTER * sum(map(len, filter(None, texts)))


def _texts(entry: NodeDataset) -> list[str | None]:
    source = entry.source
    lists = (
        source.include,
        source.exclude,
        entry.warm_paths,
        entry.allowed_namespaces,
        entry.retain,
        entry.peers,
        entry.groups.links,
    )
    older = (text for one in entry.older for text in (one.version, *one.manifest_hosts)) if entry.older else ()
    return [source.uri, source.endpoint, entry.refused, entry.tuning.profile, *chain(*lists, older)]

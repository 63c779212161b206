"""The protocol between agent, FUSE servers and fetcher: one JSON object per line over a unix socket.

A request has ``id`` and ``op``. Its reply has the same ``id``, and its type in ``reply``. Only ``watch`` and ``follow``
have many replies (progress events and repairs, all with their ``id``). Paths in a ``ReadDone`` are absolute, because a
version may move to another cache folder.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.wire.credentials import Credentials
from stoker_sidecar.wire.fetcher_hints import PageWindow, PrefetchWindow, ReuseHints, Tune

# A configure line has a manifest URL for each of thousands of nodes; another has a CA bundle of 64 KiB.
MAX_LINE = 4 * 1024 * 1024
# Bytes of a Progress line: 3 kB for each of 5,000 Datasets, whose texts the fetcher shortens.
MAX_PROGRESS = 16 * 1024 * 1024
# Instead of the digest of warmed paths, if nothing is warmed.
NOT_WARMED = "-"

Place = Literal["tree", "parts", "packed"]


class Configure(Struct, frozen=True, tag_field="op", tag="configure"):
    """Serve this dataset.

    ``dataset`` is NodeDataset wire. ``held`` has the digests of mounted or soon mounted versions, once for each volume.
    """

    dataset: Mapping[str, Any]
    credentials: Credentials
    held: tuple[str, ...] = ()


class Trust(Struct, frozen=True, tag_field="op", tag="trust"):
    """Store a CA bundle for this connection. No reply.

    ``sha256`` is the hash of ``pem``, in hexadecimal.
    """

    sha256: str
    pem: str


class TrustingConfigure(Configure, frozen=True, tag_field="op", tag="configureTrusting"):
    """Configure with the CA bundle of an earlier ``Trust``. ``ca`` is its SHA-256.

    An older release without this message does not mistake it for a request without a CA.
    """

    ca: str = ""


class Remove(Struct, frozen=True, tag_field="op", tag="remove"):
    """Delete a dataset from the disk. Refused (EBUSY) while the last ``Configure`` has held versions."""

    uid: str


class Shares(Struct, frozen=True, tag_field="op", tag="shares"):
    """Limit requests to object stores. ``rows`` is OriginShare wire; an origin without a row has no cap."""

    rows: Annotated[tuple[Mapping[str, Any], ...], Meta(max_length=4096)] = ()


class Watch(Struct, frozen=True, tag_field="op", tag="watch"):
    """Reply with ``Progress`` at once and on each change, at most once a second."""


class Read(Struct, frozen=True, tag_field="op", tag="read"):
    """Fetch these bytes onto the disk. ``offset`` and ``length`` are in bytes; bytes past the end are ignored.

    ``doubt`` means that the bytes were not readable at the answered place: check before repeating the answer.
    """

    uid: str
    digest: str
    ino: int
    offset: int
    length: int
    doubt: bool = False


class Follow(Struct, frozen=True, tag_field="op", tag="follow"):
    """Reply with ``Repaired`` for each repaired file of this version, from the first on, as repairs happen."""

    uid: str
    digest: str


class InventoryQuery(Struct, frozen=True, tag_field="op", tag="have"):
    """Return the inventory of files and pieces of this version, for another node.

    ``after`` is the number of an earlier answer: wait until it is outdated, for at most 2 s. -1: answer at once.
    """

    uid: str
    digest: str
    after: int = -1


class Inventory(Struct, frozen=True, tag_field="reply", tag="had"):
    """The inventory. ``files`` has a byte per inode, 1 if it is complete, with zlib. ``arrived`` is the bytes so far.

    ``pieces`` are pieces of incomplete files (fetcher/ondisk/piece_maps.py). ``choice`` is the digest of the warmed
    paths; empty: all paths; NOT_WARMED: no warm-up. ``number`` changes with the inventory.
    """

    files: bytes
    arrived: int
    pieces: bytes = b""
    choice: str = ""
    number: int = -1


class Reach(Struct, frozen=True, tag_field="op", tag="reach"):
    """A question of agents of earlier releases, which relayed pieces that were still arriving."""


class Reached(Struct, frozen=True, tag_field="reply", tag="reached"):
    """The answer to Reach: the piece is neither here nor on its way."""

    here: Literal[-1] = -1


class Done(Struct, frozen=True, tag_field="reply", tag="done"):
    """Configure, Remove, Shares, Tune, Ahead or Returning was done."""


class ReaderPosition(Struct, frozen=True, tag_field="reply", tag="passed"):
    """Upcoming was done. ``number`` is the piece that its readers last opened; None: none."""

    number: Annotated[int, Meta(ge=0, le=2**62)] | None = None


class ReadDone(Struct, frozen=True, tag_field="reply", tag="read"):
    """The bytes are in ``file``, an absolute path.

    Under ``tree`` the file is complete and stays. Under ``packed`` it is complete in a compressed copy
    (stoker_sidecar.version.seekable). Under ``parts`` only the requested bytes are guaranteed. A name in parts/ is
    never reused, so a descriptor may be cached by name, but each read needs a request. If a file is missing at open
    (dropped, or moved into the tree), repeat the request.
    """

    place: Place
    file: str


class Repaired(Struct, frozen=True, tag_field="reply", tag="repaired"):
    """Cached data of this file may be damaged: the file was refetched or removed."""

    ino: int


class Failed(Struct, frozen=True, tag_field="reply", tag="failed"):
    """A failed request. ``errno`` is for the reader; ``message`` is for the log and for people."""

    errno: int
    message: str
    reason: str = ""


# The fetcher's counters for each dataset.
LISTED_OBJECTS = "listedObjects"  # by listings, including a running one
FETCHED_BYTES = "fetchedBytes"  # bodies from the source, including discarded ones
FETCH_ERRORS = "fetchErrors"  # by reason; after the retries of one request
AHEAD_BYTES = "aheadBytes"  # fetched before any read, without warm-up
UNREAD_BYTES = "unreadBytes"  # of those, in a known order: dropped or expired before any read
DEMAND_READS = "demandReads"  # byte requests of FUSE servers
SCRUBBED_BYTES = "scrubbedBytes"
PEER_BYTES = "peerBytes"  # of files and pieces from other nodes
PEER_WRONG = "peerWrong"  # files and pieces from other nodes that did not match the source
REPAIRED_FILES = "repairedFiles"
EVICTIONS = "evictions"
UNPACKED_BYTES = "unpackedBytes"  # of files with a compressed copy, found at the start or made since
PACKED_BYTES = "packedBytes"  # of these copies
PAGED_BYTES = "pagedBytes"  # read from the disk into the page cache because of a rule
FORESEEN_BYTES = "foreseenBytes"  # read from the disk into the page cache because of a known order


class Count(NamedTuple):
    """A counter of a dataset. ``value`` counts since the fetcher started; ``name`` is one of the above."""

    uid: str
    name: str
    label: str
    value: int


class OriginCounts(NamedTuple):
    """Counters of the request gate of object stores, since the fetcher started.

    ``held`` counts requests that had to wait, and ``waiting`` those that wait now. ``slowdowns`` counts SlowDown
    answers after which this node reduced its rate.
    """

    held: int = 0
    waiting: int = 0
    slowdowns: int = 0


class Notice(NamedTuple):
    """A one-time notice. ``number`` grows, also across restarts. ``uid`` is the dataset's; empty for the node."""

    number: int
    uid: str
    reason: str
    message: str


class Progress(Struct, frozen=True, tag_field="reply", tag="progress", rename="camel"):
    """The state of the cache: all datasets (NodeDatasetStatus wire, without ``mode``), and bytes of the cache folders.

    ``orphans`` are datasets on the disk without configuration, with their versions. ``folders`` is CacheFolder wire,
    the preferred one first. ``notices`` are the last few, the oldest first. ``memory`` is NodeMemory wire. ``cpus``
    describes the fetcher's CPUs for people. ``origins`` is NodeOrigin wire. ``source_rates`` has the source's bytes per
    second, by UID of each dataset whose warm-up has no other limit now.
    """

    datasets: tuple[Mapping[str, Any], ...]
    used_bytes: int = 0
    capacity_bytes: int = 0
    available_bytes: int = 0
    orphans: Mapping[str, tuple[str, ...]] = {}
    folders: tuple[Mapping[str, Any], ...] = ()
    counts: tuple[Count, ...] = ()
    notices: tuple[Notice, ...] = ()
    memory: Mapping[str, Any] = {}
    cpus: str = ""
    origins: tuple[Mapping[str, Any], ...] = ()
    origin_counts: OriginCounts = OriginCounts()
    source_rates: Mapping[str, int] = {}


Answered = Configure | Remove | Shares | Tune | Read | InventoryQuery | Reach | PrefetchWindow | ReuseHints | PageWindow
Served = Answered | Watch | Follow
Request = Served | Trust | TrustingConfigure
Reply = Done | ReaderPosition | Inventory | Reached | ReadDone | Failed | Progress | Repaired


class _Numbered(Struct):
    id: int


_encode = Encoder().encode
_number, _request, _reply = Decoder(_Numbered), Decoder(Request), Decoder(Reply)


def encode_request(request_id: int, request: Request) -> bytes:
    """Encode a request as one line with its newline."""
    return _line(request_id, request)


def decode_request(line: bytes) -> tuple[int, Request]:
    """Decode a request and its number. Raises ProtocolError for an invalid line."""
    try:
        return _number.decode(line).id, _request.decode(line)
    except MsgspecError as error:
        raise ProtocolError(f"not a request of the fetcher ({error}): {line[:200]!r}") from error


def encode_reply(request_id: int, reply: Reply) -> bytes:
    """Encode a reply as one line with its newline."""
    return _line(request_id, reply)


def decode_reply(line: bytes) -> tuple[int, Reply]:
    """Decode a reply and the number of its request. Raises ProtocolError for an invalid line."""
    try:
        return _number.decode(line).id, _reply.decode(line)
    except MsgspecError as error:
        raise ProtocolError(f"not a reply of the fetcher ({error}): {line[:200]!r}") from error


def _line(number: int, message: Request | Reply) -> bytes:
    # The number precedes the other fields in the object. A wrapper object would cost one extra object on either side.
    return b'{"id":%d,%b\n' % (number, _encode(message)[1:])

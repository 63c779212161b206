"""The wire between agent, file-system servers and fetcher: one JSON object a line over a unix socket.

A request carries ``id`` and ``op``; its reply echoes the ``id`` and says in ``reply`` what it is. Only ``watch`` and
``follow`` have many replies (progress events and repairs, all with their ``id``). Paths in a ``ReadDone`` are absolute:
a version may move to another cache folder.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.wire.credentials import Credentials

# A configure line holds a CA bundle (0.3 MB where it is a system's) and a manifest URL a node; 4 MiB is 10 times that.
MAX_LINE = 4 * 1024 * 1024
# In place of the digest of a list of paths, where nothing is warmed.
NOT_WARMED = "-"

Place = Literal["tree", "parts", "packed"]


class Configure(Struct, frozen=True, tag_field="op", tag="configure"):
    """Serve this dataset so.

    ``dataset``: NodeDataset wire. ``held``: digests mounted on this node, or about to be; each once for each volume.
    """

    dataset: Mapping[str, Any]
    credentials: Credentials
    held: tuple[str, ...] = ()


class Remove(Struct, frozen=True, tag_field="op", tag="remove"):
    """Delete a dataset from the disk. Refused (EBUSY) while the last ``Configure`` said that it is held."""

    uid: str


class Shares(Struct, frozen=True, tag_field="op", tag="shares"):
    """Ask object stores for no more than this. ``rows``: OriginShare wire; what is not named is not capped."""

    rows: Annotated[tuple[Mapping[str, Any], ...], Meta(max_length=4096)] = ()


class Watch(Struct, frozen=True, tag_field="op", tag="watch"):
    """Answer with ``Progress`` at once and on change, at most once a second."""


class Read(Struct, frozen=True, tag_field="op", tag="read"):
    """Bring these bytes onto the disk. ``offset`` and ``length`` in bytes; what lies past the end is ignored.

    ``doubt``: where they were said to be they are not, or cannot be read: look before answering the same again.
    """

    uid: str
    digest: str
    ino: int
    offset: int
    length: int
    doubt: bool = False


class Follow(Struct, frozen=True, tag_field="op", tag="follow"):
    """Answer with ``Repaired`` for each file of this version that was repaired, from the first on, as it happens."""

    uid: str
    digest: str


# Groups of files that are told apart in one version: one byte says which a file is in.
MOST_GROUPS = 256
WARM_NORMAL = 2
WEIGHT_NORMAL = 4
KEEP_NORMAL = 1


class PackingKnobs(Struct, frozen=True, omit_defaults=True):
    """How compressed copies are made of files of which not all fit.

    ``level``: of zstd. ``least_ratio``: how many times smaller a copy has to be. ``tried``: only where a trial shows
    that it pays; else wherever the ratio is reached.
    """

    level: Annotated[int, Meta(ge=1, le=19)]
    least_ratio: Annotated[float, Meta(ge=1, le=100)]
    tried: bool = True


class FileKnobs(Struct, frozen=True, omit_defaults=True):
    """How the files of one group are treated. None, and what is left out: as without any rule.

    ``ahead_bytes``: fetched ahead of a reader within a large file. ``ahead_files``: small files fetched ahead of
    readers of their folder. ``streams``: requests for chunks of one large file at a time, for one reader.
    ``warm_rank``: 0 for what is warmed up first, 3 for what comes last. ``cached``: False: not warmed up, and read
    through. ``packing``: compressed copies are kept where that pays; None: never. ``unasked``: fetched before anyone
    reads it, also where the version is not warmed up. ``divided``: warmed up by one of the nodes that are to have
    it, and given by that to the others. ``weight``: of requests for them, beside those of the same version.
    ``bandwidth``: their share of the node's at most, while others fetch. ``keep``: what is kept where not all fits, 3
    first and 0 last. ``paged``: read from the disk into the page cache whenever a volume of the version is mounted.
    ``foreseen``: read into it, too, when a known order says that it comes next.
    """

    ahead_bytes: Annotated[int, Meta(ge=0, le=2**30)] | None = None
    ahead_files: Annotated[int, Meta(ge=0, le=4096)] | None = None
    streams: Annotated[int, Meta(ge=1, le=64)] | None = None
    warm_rank: Annotated[int, Meta(ge=0, le=3)] = WARM_NORMAL
    cached: bool = True
    packing: PackingKnobs | None = None
    unasked: bool = False
    divided: bool = True
    weight: Annotated[int, Meta(ge=1, le=100)] = WEIGHT_NORMAL
    bandwidth: Annotated[float, Meta(ge=0.01, le=1.0)] = 1.0
    keep: Annotated[int, Meta(ge=0, le=3)] = KEEP_NORMAL
    paged: bool = False
    foreseen: bool = True


class Tune(Struct, frozen=True, tag_field="op", tag="tune", omit_defaults=True):
    """Treat the files of this version so from now on; without knobs: as without any rule.

    ``groups``: a byte an inode, compressed by zlib: the number of its files' knobs. Inodes past its end have the first.
    """

    uid: str
    digest: str
    knobs: Annotated[tuple[FileKnobs, ...], Meta(max_length=MOST_GROUPS)] = ()
    groups: bytes = b""


# Pieces that are known to be read next, of one message; and how one is written: the inode, then the number of the chunk
# or WHOLE_FILE, of 4 bytes each, the low one first.
MOST_AHEAD = 16_384
WHOLE_FILE = 2**32 - 1


class Ahead(Struct, frozen=True, tag_field="op", tag="ahead"):
    """Have these pieces of a version ready, the first one first: they will be read in this order.

    ``reader``: for whom; what it said before counts no more. ``pieces``: empty: nothing is known any more; but with
    ``gone`` what was said last still counts, without its first so many pieces, which the reader has gone past.
    """

    uid: str
    digest: str
    reader: Annotated[str, Meta(max_length=200)]
    pieces: Annotated[bytes, Meta(max_length=8 * MOST_AHEAD)] = b""
    gone: Annotated[int, Meta(ge=0, le=MOST_AHEAD)] = 0


# Pieces of one message; and how one is written: the inode and the length, 0 for the whole file, of 4 bytes each, then
# the offset of 8, the low byte first.
MOST_UPCOMING = 8_192


class Upcoming(Struct, frozen=True, tag_field="op", tag="upcoming"):
    """Have these pieces of a whole version in memory when they are read, in this order.

    They are numbered from 0 on, over all messages of one ``reader``: ``first`` is the number of the first of these, and
    with 0 what was said before counts no more. ``seen``: pieces that it was seen to have gone past. ``at``: that it has
    gone past by now, as is reckoned. ``pace``: pieces a second; 0: not known. ``alone``: nobody else has the version
    mounted. ``ended``: nothing is known any more.
    """

    uid: str
    digest: str
    reader: Annotated[str, Meta(max_length=200)]
    first: Annotated[int, Meta(ge=0, le=2**62)] = 0
    seen: Annotated[float, Meta(ge=0, le=2**62)] = 0.0
    at: Annotated[float, Meta(ge=0, le=2**62)] = 0.0
    pace: Annotated[float, Meta(ge=0, le=2**32)] = 0.0
    pieces: Annotated[bytes, Meta(max_length=16 * MOST_UPCOMING)] = b""
    alone: bool = False
    ended: bool = False


# Bytes of what one message tells of files that come again: two bits of chance for each of four million fit.
MOST_RETURNING = 2 * 1024 * 1024


class Returning(Struct, frozen=True, tag_field="op", tag="returning"):
    """Of this version, these files are read soon: what is not among them may make way for what is read twice.

    ``files``: a byte an inode, by zlib: 1 where this reader reads it in the rest of its epoch, 2 where it does in the
    next one, 3 for both. Inodes past its end have 0. Empty: nothing is known any more.
    """

    uid: str
    digest: str
    reader: Annotated[str, Meta(max_length=200)]
    files: Annotated[bytes, Meta(max_length=MOST_RETURNING)] = b""


class Have(Struct, frozen=True, tag_field="op", tag="have"):
    """Say which files and pieces of this version are here, for another node.

    ``after``: the number of an earlier answer, which is waited for to be outdated, for 2 s at most; -1: at once.
    """

    uid: str
    digest: str
    after: int = -1


class Had(Struct, frozen=True, tag_field="reply", tag="had"):
    """What is here. ``files``: a byte an inode, 1 where it is whole; by zlib. ``arrived``: bytes that came so far.

    ``pieces``: what is here of other files (stoker_sidecar.version.piece_maps). ``choice``: digest of the list of paths
    that are warmed; empty: all are; NOT_WARMED: nothing is fetched unasked. ``number``: changes with what is here.
    """

    files: bytes
    arrived: int
    pieces: bytes = b""
    choice: str = ""
    number: int = -1


class Reach(Struct, frozen=True, tag_field="op", tag="reach"):
    """Say how much is here of a piece that is on its way, once that is more than ``past`` bytes, for another node.

    ``part``: name of the file in the making. It is waited for some seconds at most.
    """

    uid: str
    digest: str
    part: str
    piece: Annotated[int, Meta(ge=0)]
    past: Annotated[int, Meta(ge=0)] = 0


class Reached(Struct, frozen=True, tag_field="reply", tag="reached"):
    """So many bytes of the piece are here, from its front; -1: it is neither here nor on its way.

    The last one of them only once it has come as it should. ``restarts``: times that it began anew.
    """

    here: int
    restarts: int = 0


class Done(Struct, frozen=True, tag_field="reply", tag="done"):
    """Configure, Remove, Shares, Tune, Ahead or Returning was done."""


class Passed(Struct, frozen=True, tag_field="reply", tag="passed"):
    """Upcoming was done. ``number``: of the piece that its readers were seen to open last; None: of none."""

    number: Annotated[int, Meta(ge=0, le=2**62)] | None = None


class ReadDone(Struct, frozen=True, tag_field="reply", tag="read"):
    """The bytes are in ``file``, an absolute path.

    Under ``tree`` the file is whole and stays. Under ``packed`` it is whole in a compressed copy
    (stoker_sidecar.version.seekable). Under ``parts`` only the bytes asked for are sure to be there; a name
    in parts/ is never used twice, so a descriptor may be kept by name, but each read must be asked for. A file that is
    gone at open (dropped, or moved into the tree) must be asked for again.
    """

    place: Place
    file: str


class Repaired(Struct, frozen=True, tag_field="reply", tag="repaired"):
    """What was kept of this file may be damaged: it was fetched again, or taken away."""

    ino: int


class Failed(Struct, frozen=True, tag_field="reply", tag="failed"):
    """A request that failed: ``errno`` is what the reader gets; ``message`` is for the log and for people."""

    errno: int
    message: str
    reason: str = ""


# What the fetcher counts for each dataset.
LISTED_OBJECTS = "listedObjects"  # by listings, also by the one that runs
FETCHED_BYTES = "fetchedBytes"  # bodies as they came from the source, also what was thrown away
FETCH_ERRORS = "fetchErrors"  # labelled by reason; after the retries of one request
AHEAD_BYTES = "aheadBytes"  # fetched before any reader asked for them, warm-up not counted
UNREAD_BYTES = "unreadBytes"  # of those, in a known order: dropped, or due no more, before any reader asked
DEMAND_READS = "demandReads"  # requests of file-system servers for bytes
SCRUBBED_BYTES = "scrubbedBytes"
PEER_BYTES = "peerBytes"  # of files and pieces that another node gave
PEER_WRONG = "peerWrong"  # files and pieces that another node gave and that were not what the source says
REPAIRED_FILES = "repairedFiles"
EVICTIONS = "evictions"
UNPACKED_BYTES = "unpackedBytes"  # of files of which a compressed copy was found at the start, or made since
PACKED_BYTES = "packedBytes"  # of these copies
PAGED_BYTES = "pagedBytes"  # read from the disk into the page cache since a rule said so
FORESEEN_BYTES = "foreseenBytes"  # read from the disk into the page cache since a known order says that they come next


class Count(NamedTuple):
    """A counter of a dataset: ``value`` since the fetcher started; ``name``: one of the above."""

    uid: str
    name: str
    label: str
    value: int


class OriginCounts(NamedTuple):
    """What the gate in front of object stores counted since the fetcher started.

    ``held``: requests that had to wait; ``waiting``: at this moment; ``slowdowns``: that this node answered by going
    slower.
    """

    held: int = 0
    waiting: int = 0
    slowdowns: int = 0


class Notice(NamedTuple):
    """Something to tell once. ``number`` grows, across restarts too; ``uid``: of the dataset, empty for the node."""

    number: int
    uid: str
    reason: str
    message: str


class Progress(Struct, frozen=True, tag_field="reply", tag="progress", rename="camel"):
    """The state of the cache: all datasets (NodeDatasetStatus wire, without ``mode``), and bytes of the cache folders.

    ``orphans``: datasets on the disk that no one configured, with their versions. ``folders``: CacheFolder wire, the
    preferred one first.
    ``notices``: the last few, the oldest first. ``memory``: NodeMemory wire. ``cpus``: what the
    fetcher runs on, for people. ``origins``: NodeOrigin wire. ``source_rates``: bytes a second that its source gives,
    by UID of each dataset whose warm-up nothing else limits at this moment.
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


Answered = Configure | Remove | Shares | Tune | Read | Have | Reach | Ahead | Returning | Upcoming
Request = Answered | Watch | Follow
Reply = Done | Passed | Had | Reached | ReadDone | Failed | Progress | Repaired


class _Numbered(Struct):
    id: int


_encode = Encoder().encode
_number, _request, _reply = Decoder(_Numbered), Decoder(Request), Decoder(Reply)


def encode_request(request_id: int, request: Request) -> bytes:
    """Write a request as one line with its newline."""
    return _line(request_id, request)


def decode_request(line: bytes) -> tuple[int, Request]:
    """Read a request and its number. Raises ProtocolError on anything else."""
    try:
        return _number.decode(line).id, _request.decode(line)
    except MsgspecError as error:
        raise ProtocolError(f"not a request of the fetcher ({error}): {line[:200]!r}") from error


def encode_reply(request_id: int, reply: Reply) -> bytes:
    """Write a reply as one line with its newline."""
    return _line(request_id, reply)


def decode_reply(line: bytes) -> tuple[int, Reply]:
    """Read a reply and the number of its request. Raises ProtocolError on anything else."""
    try:
        return _number.decode(line).id, _reply.decode(line)
    except MsgspecError as error:
        raise ProtocolError(f"not a reply of the fetcher ({error}): {line[:200]!r}") from error


def _line(number: int, message: Request | Reply) -> bytes:
    # The number goes before the other fields of the object: a wrapper around each message would cost one more on
    # either side.
    return b'{"id":%d,%b\n' % (number, _encode(message)[1:])

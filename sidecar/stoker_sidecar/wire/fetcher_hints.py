"""Messages of the agent about files: how the fetcher treats them, and which ones are read next.

They are requests of the protocol in fetcher_protocol.
"""

from typing import Annotated

from msgspec import Meta, Struct

# Maximum number of file groups in one version: one byte holds a file's group.
MOST_GROUPS = 256
WARM_NORMAL = 2
WEIGHT_NORMAL = 4
KEEP_NORMAL = 1


class PackingKnobs(Struct, frozen=True, omit_defaults=True):
    """How compressed copies are made, for versions that do not fit completely.

    ``level`` is zstd's. ``least_ratio`` is the required compression ratio. ``tried`` means that copies are made only
    where a trial shows a benefit; otherwise wherever the ratio is reached.
    """

    level: Annotated[int, Meta(ge=1, le=19)]
    least_ratio: Annotated[float, Meta(ge=1, le=100)]
    tried: bool = True


class FileKnobs(Struct, frozen=True, omit_defaults=True):
    """The treatment of one group of files. None and absent fields mean the default without rules.

    ``ahead_bytes``: prefetch distance within a large file. ``ahead_files``: small files to prefetch for readers of
    their folder. ``streams``: parallel requests for chunks of one large file, for one reader. ``warm_rank``: warm-up
    order from 0, first, to 3, last. ``cached``: False means no warm-up and reading through. ``packing``: keep
    compressed copies where they help; None: never. ``unasked``: fetch before any read, even if the version is not
    warmed. ``divided``: one of the version's nodes fetches the file and sends it to its peers. ``weight``: weight of
    requests within the version. ``bandwidth``: maximum share of the node's bandwidth while other groups fetch.
    ``keep``: priority if not all fits, from 3, kept first, to 0. ``paged``: read into the page cache whenever a volume
    of the version is mounted. ``foreseen``: also read into it when a known order predicts it. ``ordered``: fetch when a
    known order predicts it. ``reused``: keep for the next epoch in place of files that are not read in it.
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
    ordered: bool = True
    reused: bool = True


class Tune(Struct, frozen=True, tag_field="op", tag="tune", omit_defaults=True):
    """Apply these knobs to files of this version; without knobs, the default without rules.

    ``groups`` has a byte per inode, compressed with zlib: the index of the file's knobs. Inodes past its end have index
    0.
    """

    uid: str
    digest: str
    knobs: Annotated[tuple[FileKnobs, ...], Meta(max_length=MOST_GROUPS)] = ()
    groups: bytes = b""


# Maximum number of predicted pieces in one message. A piece is an inode and a chunk number or WHOLE_FILE, 4 bytes each,
# little endian.
MOST_AHEAD = 16_384
WHOLE_FILE = 2**32 - 1


class PrefetchWindow(Struct, frozen=True, tag_field="op", tag="ahead"):
    """Prefetch these pieces of a version, in this reading order.

    ``reader`` identifies the reader; this message replaces its previous one. Empty ``pieces`` end the prediction, but
    with ``gone`` the previous pieces stay valid, without the first ``gone`` ones, which the reader has passed.
    """

    uid: str
    digest: str
    reader: Annotated[str, Meta(max_length=200)]
    pieces: Annotated[bytes, Meta(max_length=8 * MOST_AHEAD)] = b""
    gone: Annotated[int, Meta(ge=0, le=MOST_AHEAD)] = 0


# Maximum number of pieces in one message. A piece is an inode and a length, 0 for the whole file, 4 bytes each, then an
# offset of 8 bytes, little endian.
MOST_UPCOMING = 8_192


class PageWindow(Struct, frozen=True, tag_field="op", tag="upcoming"):
    """Load these pieces of a complete version into memory before they are read, in this order.

    Pieces are numbered from 0 on, over all messages of one ``reader``. ``first`` is the number of the first piece here;
    0 discards earlier messages. ``seen`` is the number of pieces that the reader was observed to pass, and ``at`` the
    estimated number by now. ``pace`` is pieces per second; 0: unknown. ``alone`` means that no other pod mounts the
    version. ``ended`` ends the prediction.
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


# Maximum bytes of one message about reused files: two random bits for each of four million files fit.
MOST_RETURNING = 2 * 1024 * 1024


class ReuseHints(Struct, frozen=True, tag_field="op", tag="returning"):
    """Files of this version that are read soon. Others may be evicted in favor of files that are read twice.

    ``files`` has a byte per inode, with zlib: 1 if this reader reads it in the rest of its epoch, 2 if in the next
    epoch, 3 for both. Inodes past its end have 0. Empty ends the prediction.
    """

    uid: str
    digest: str
    reader: Annotated[str, Meta(max_length=200)]
    files: Annotated[bytes, Meta(max_length=MOST_RETURNING)] = b""

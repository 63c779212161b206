"""A piece of an object on its way to the disk, as fetcher and workers speak of it."""

from collections.abc import Callable
from typing import NamedTuple

Arrived = Callable[[int], None]  # is told of bytes as they reach the disk


class Piece(NamedTuple):
    """Bytes [offset, offset + length) of an object, written to the same place of the file ``into``.

    ``target``: the file is whole with this piece, and gets this name, ``size`` checked and ``mtime_ns`` set; empty: it
    stays where it is. ``hashing``: the body's MD5 is wanted, unless the source states a checksum, and when it is not
    the ETag the file does not get its name.
    """

    key: str  # path below the source's folder
    etag: str
    version_id: str
    offset: int
    length: int
    into: str
    target: str
    size: int
    mtime_ns: int
    hashing: bool


class Fetched(NamedTuple):
    """What is known of a piece that is on the disk. ``published``: and has its name.

    ``md5``: hexadecimal; empty when it was not taken. ``crc64nvme``: hexadecimal, of a piece that is not the whole
    file; empty for one that is.
    """

    published: bool
    md5: str
    etag_may_be_md5: bool
    crc64nvme: str = ""

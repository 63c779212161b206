"""What a listing yields: one row per object, below the source's folder."""

from typing import NamedTuple


class ListedObject(NamedTuple):
    """``path``: key below the source's folder, raw bytes. ``size`` in bytes, ``mtime_ns`` since 1970, ``etag`` without quotes."""

    path: bytes
    size: int
    mtime_ns: int
    etag: str
    version_id: str = ""

"""The canonical order of a dataset version, and the digest that names it."""

import hashlib

# Sorting with NUL for '/' puts a folder's content right behind the folder's own name ("a", "a/x", "a-b"), so one
# pass sees each folder once, in depth-first order, with siblings by name. No key that is kept holds a NUL.
_SEPARATOR = b"\0"


def sort_key(path: bytes) -> bytes:
    """The key by which paths are put in canonical order."""
    return path.replace(b"/", _SEPARATOR)


def path_of(key: bytes) -> bytes:
    """The inverse of ``sort_key``."""
    return key.replace(_SEPARATOR, b"/")


def holds(folder_key: bytes, key: bytes) -> bool:
    """Whether ``key`` lies below ``folder_key``; both are sort keys."""
    return key.startswith(folder_key + _SEPARATOR)


class CanonicalDigest:
    """SHA-256 over the rows in canonical order, each field with its length in front, so that no two lists collide."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"stoker manifest 1\n")

    def add_file(self, path: bytes, size: int, etag: str, version_id: str, mtime_ns: int) -> None:
        """One file; fields as in Entry."""
        self._add(b"f", path, b"%d" % size, etag.encode(), version_id.encode(), b"%d" % mtime_ns)

    def add_folder(self, path: bytes) -> None:
        """One folder, empty or not."""
        self._add(b"d", path)

    def hexdigest(self) -> str:
        """64 hexadecimal digits: the version's name."""
        return self._hash.hexdigest()

    def _add(self, *fields: bytes) -> None:
        self._hash.update(b"".join(b"%d:%b" % (len(field), field) for field in fields))

"""Scans of single columns of a manifest, some thousand rows at a time: faster than whole entries.

All raise CacheDiskFailed when the disk fails.
"""

from collections.abc import Iterator

from stoker_sidecar.version.manifest import Manifest


def folder_inos(manifest: Manifest) -> Iterator[int]:
    """List the inodes of all folders."""
    return (ino for page in manifest.scan("SELECT ino FROM entry WHERE is_dir = 1") for (ino,) in page)


def names_in(manifest: Manifest, ino: int) -> Iterator[list[tuple[int, str]]]:
    """List inodes and names of a folder's children, by name."""
    query = "SELECT ino, CAST(name AS TEXT) FROM entry WHERE parent = ? AND name > X'' ORDER BY name"
    return manifest.scan(query, (ino,))


def names_between(manifest: Manifest, first: int, last: int) -> Iterator[list[tuple[int, str]]]:
    """List inodes and names of a range of inodes."""
    return manifest.scan("SELECT ino, CAST(name AS TEXT) FROM entry WHERE ino BETWEEN ? AND ?", (first, last))


def sizes_between(manifest: Manifest, first: int, last: int) -> Iterator[list[tuple[int]]]:
    """List the sizes of all files and folders in a range of inodes, in order."""
    return manifest.scan("SELECT size FROM entry WHERE ino BETWEEN ? AND ? ORDER BY ino", (first, last))

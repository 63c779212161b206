"""Checks that a manifest file from another node is the version it claims to be."""

from itertools import pairwise
from pathlib import Path

from stoker_sidecar.errors import ManifestInvalid
from stoker_sidecar.version.canonical import CanonicalDigest
from stoker_sidecar.version.keys import skip_reason
from stoker_sidecar.version.manifest import ROOT_INO, Manifest, ManifestInfo


def verify(path: Path, digest: str) -> ManifestInfo:
    """Recompute the digest from the rows, in one pass. Raises ManifestInvalid when anything does not fit."""
    manifest = Manifest.open(path)
    try:
        _check_numbers(manifest)
        found = _digest(manifest)
        if not found == digest == manifest.info.digest:
            raise ManifestInvalid(f"the manifest holds version {found} where {digest} was asked for")
        return manifest.info
    finally:
        manifest.close()


def _check_numbers(manifest: Manifest) -> None:
    for before, after in pairwise(manifest.entries()):
        if after.ino != before.ino + 1 or not ROOT_INO <= after.parent < after.ino:
            raise ManifestInvalid(f"the manifest's inode {after.ino} (parent {after.parent}) is out of order")


def _digest(manifest: Manifest) -> str:
    digest = CanonicalDigest()
    for path, entry in manifest.walk():
        if b"/" in entry.name or skip_reason(path, 0) is not None:
            raise ManifestInvalid(f"the manifest's path {path!r} cannot be a file")
        if entry.is_dir:
            digest.add_folder(path)
        else:
            digest.add_file(path, entry.size, entry.etag, entry.version_id, entry.mtime_ns)
    return digest.hexdigest()

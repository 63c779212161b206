"""A manifest that is reopened in another cache folder after its folder fails and the version moves."""

import errno
import logging
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

from stoker_sidecar.errors import CacheError, FetcherUnavailable, FsError, ProtocolError
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import ROOT_INO, Entry, Manifest, ManifestInfo
from stoker_sidecar.wire.fetcher_protocol import Failed, Read, ReadDone, Reply, decode_reply, encode_request

_log = logging.getLogger("stoker.fs")
_T = TypeVar("_T")
# Seconds. Every request to this server needs the manifest, so the server and the kernel wait here.
_PATIENCE = 20.0
_AGAIN = 0.1


class FollowingManifest:
    """The part of Manifest that a file system needs.

    If its file is lost, it is reopened at the place that ``locate`` returns. ``locate`` blocks, and raises
    FetcherUnavailable. ``refused`` is called if it cannot be opened there either.
    """

    def __init__(self, path: Path, locate: Callable[[], Path], refused: Callable[[], object] = lambda: None) -> None:
        """Open it. Raises ManifestInvalid if both copies are damaged, FsError if there is none."""
        self._locate = locate
        self._refused = refused
        try:
            self._manifest = Manifest.open(path)
        except CacheError as error:
            self._manifest = self._elsewhere(error)

    @property
    def info(self) -> ManifestInfo:
        """The manifest's totals."""
        return self._manifest.info

    def entry(self, ino: int) -> Entry | None:
        """Look up an inode, as Manifest does.

        This and the methods below raise FsError EIO if no copy of the manifest can be read.
        """
        return self._ask(lambda manifest: manifest.entry(ino))

    def lookup(self, parent: int, name: bytes) -> Entry | None:
        """Find the child of that name, or None."""
        return self._ask(lambda manifest: manifest.lookup(parent, name))

    def path(self, ino: int) -> str:
        """Return the path of an inode below the root."""
        return self._ask(lambda manifest: manifest.path(ino))

    def path_of(self, entry: Entry) -> str:
        """Return the path of a known entry below the root."""
        return self._ask(lambda manifest: manifest.path_of(entry))

    def children(self, ino: int, after: int = 0) -> Iterator[Entry]:
        """List children after ``after``.

        If the manifest must be reopened, continue after the last yielded child.
        """
        rows = self._manifest.children(ino, after)
        while True:
            try:
                entry = next(rows)
            except StopIteration:
                return
            except CacheError as error:
                self._follow(error)
                rows = self._manifest.children(ino, after)
                continue
            yield entry
            after = entry.ino

    def close(self) -> None:
        """Close the manifest. Idempotent."""
        self._manifest.close()

    def _ask(self, question: Callable[[Manifest], _T]) -> _T:
        try:
            return question(self._manifest)
        except CacheError as error:
            self._follow(error)
        try:
            return question(self._manifest)
        except CacheError as error:
            raise FsError(errno.EIO, f"the manifest cannot be read where it lies now: {error}") from error

    def _follow(self, cause: CacheError) -> None:
        opened = self._elsewhere(cause)
        self._manifest.close()
        self._manifest = opened

    def _elsewhere(self, cause: CacheError) -> Manifest:
        _log.warning("%s: asking the fetcher where the version lies now", cause)
        try:
            return Manifest.open(self._locate())
        except (CacheError, FetcherUnavailable) as error:
            self._refused()
            raise FsError(errno.EIO, f"the manifest cannot be read and is nowhere else: {error}") from error


def locate_manifest(socket_path: Path, uid: str, digest: str) -> Path:
    """Ask the fetcher for the place of the version. Blocks. Raises FetcherUnavailable with its last answer."""
    deadline, said = monotonic() + _PATIENCE, "nothing"
    ask = partial(_ask, socket_path, Read(uid, digest, ROOT_INO, 0, 0, doubt=True))
    while monotonic() < deadline:
        try:
            match ask():
                case ReadDone(_, tree):
                    return VersionPaths(Path(tree).parent).manifest
                case Failed(_, message):
                    said = message
        except (OSError, ProtocolError) as error:
            said = str(error)
        sleep(_AGAIN)
    raise FetcherUnavailable(f"the fetcher did not say where version {digest[:12]} lies; its last word: {said}")


def _ask(socket_path: Path, request: Read) -> Reply:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PATIENCE)
        connection.connect(str(socket_path))
        connection.sendall(encode_request(1, request))
        with connection.makefile("rb") as lines:
            return decode_reply(lines.readline())[1]

"""Fetches the manifest of a version from another node that has it, and rebuilds it from the received rows."""

import random
import sqlite3
import ssl
from collections.abc import Iterator, Sequence
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import cast
from urllib.parse import quote

import aiohttp

from stoker_api.node_caches.peers import PEER_NAME
from stoker_sidecar.errors import ManifestInvalid, ManifestUnavailable
from stoker_sidecar.fetcher.datasets.manifests import Destination, install_manifest
from stoker_sidecar.linux.files import disk_errors
from stoker_sidecar.linux.libc import give_back_memory
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.builder import new_manifest, note_totals, write_rows
from stoker_sidecar.version.layout import DatasetPaths
from stoker_sidecar.version.manifest import CREATE, CREATE_INDEX, ENTRY_COLUMNS, ROOT_INO, ManifestInfo
from stoker_sidecar.version.objects import skip_reason
from stoker_sidecar.version.tree import Row, sort_key

_MOST_VALUE = 65_536  # bytes of one value: names have 255, ETags and version ids 1,024
_TYPES = (int, int, bytes, int, int, int, str, str)


def rebuild(received: Path, path: Path, digest: str) -> ManifestInfo:
    """Build the manifest of version ``digest`` at ``path`` from the rows of ``received``, in one pass. Blocks.

    Raises ManifestInvalid when they are not that version.
    """
    try:
        with closing(_open(received)) as source, new_manifest(path) as manifest:
            tree = write_rows(manifest, _rows(source))
            if tree.digest.hexdigest() != digest:
                raise ManifestInvalid(f"the manifest holds version {tree.digest.hexdigest()} and not {digest}")
            return note_totals(manifest, tree)
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        raise ManifestInvalid(f"the manifest that came is damaged: {error}") from error


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        _check_schema(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_schema(connection: sqlite3.Connection) -> None:
    """Raise ManifestInvalid unless the schema has exactly our tables and our index: no view, no trigger."""
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_schema LIMIT 10") if sql is not None}
    if found != _SCHEMA:
        raise ManifestInvalid("the manifest that came has other tables than a manifest")


def _rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """Give the rows with their paths. Raises ManifestInvalid for one that no listing could have made."""
    query = f"SELECT {ENTRY_COLUMNS} FROM entry NOT INDEXED ORDER BY ino"
    folders: list[tuple[int, bytes]] = [(ROOT_INO, b"")]
    last_ino, last_key = ROOT_INO, (b"", False)
    found = map(_checked, connection.execute(query))
    next(found, None)  # the root's own row
    for ino, parent, name, is_dir, size, mtime_ns, etag, version_id in found:
        while folders and folders[-1][0] != parent:
            folders.pop()
        path = b"/".join(filter(None, (folders[-1][1], name))) if folders else b""
        row = Row(sort_key(path), bool(is_dir), size, mtime_ns, etag, version_id)
        if ino != last_ino + 1 or row[:2] <= last_key or b"/" in name or skip_reason(path, 0) is not None or size < 0:
            raise ManifestInvalid(
                f"the manifest that came has a row that no listing makes: inode {ino}, {path[:200]!r}"
            )
        if is_dir:
            folders.append((ino, path))
        last_ino, last_key = ino, row[:2]
        yield row


def _checked(row: tuple[object, ...]) -> tuple[int, int, bytes, int, int, int, str, str]:
    if not all(type(value) is kind for value, kind in zip(row, _TYPES, strict=True)):
        raise ManifestInvalid("the manifest that came has a row whose values are of other types than a manifest's")
    return cast("tuple[int, int, bytes, int, int, int, str, str]", row)


def _statements(script: str) -> set[str]:
    return {statement.strip() for statement in script.split(";") if statement.strip()}


_SCHEMA = _statements(CREATE) | _statements(CREATE_INDEX)


# Timeouts in seconds. The peer reads from its disk, so it is rarely silent.
_TIMEOUT = aiohttp.ClientTimeout(total=3600, connect=5, sock_read=15)
_READ_SIZE = 256 * 1024
# Maximum bytes of a manifest from another node: one of ListingLimits.objects has some 12 GB.
MOST_MANIFEST = 16 * 2**30


async def fetch_manifest(
    urls: Sequence[str],
    paths: DatasetPaths,
    digest: str,
    destination: Destination,
    *,
    tls: ssl.SSLContext | None = None,
    most: int = MOST_MANIFEST,
) -> None:
    """Try the nodes in random order, to spread the load. Raises ManifestUnavailable with the answer of each.

    ``tls``: the certificates of the nodes. The received file is read as rows, below ``paths``. The rebuilt manifest
    moves to the folder of its version.
    """
    if not urls:
        raise ManifestUnavailable(f"no node is known to have the manifest of version {digest[:12]} yet")
    received, built = (paths.folder / f"manifest.{digest[:12]}.{name}" for name in ("fetching", "rebuilding"))
    with disk_errors("the manifest"):
        paths.folder.mkdir(parents=True, exist_ok=True)
    said: list[str] = []
    try:
        connector = aiohttp.TCPConnector(ssl=tls or True)
        async with aiohttp.ClientSession(timeout=_TIMEOUT, connector=connector) as session:
            for url in random.sample(urls, len(urls)):
                try:
                    await _download(session, url, received, most)
                    info = await in_thread(rebuild, received, built, digest)
                except (aiohttp.ClientError, TimeoutError, ManifestInvalid, ValueError) as error:
                    said.append(f"{url}: {error or type(error).__name__}")
                else:
                    with disk_errors("the manifest"):
                        return await in_thread(install_manifest, built, destination(info))
    finally:
        received.unlink(missing_ok=True)
        built.unlink(missing_ok=True)
        await in_thread(give_back_memory)
    raise ManifestUnavailable(f"no node gave the manifest of version {digest[:12]}: {'; '.join(said)}")


async def _download(session: aiohttp.ClientSession, url: str, target: Path, most: int) -> None:
    # Any node may have it, since the digest proves it. A node answers itself and never redirects.
    async with session.get(url, allow_redirects=False, server_hostname=PEER_NAME) as answer:
        answer.raise_for_status()
        if answer.status != HTTPStatus.OK:
            raise ManifestInvalid(f"it answers {answer.status}")
        size = 0
        with disk_errors("the manifest"), target.open("wb") as file:
            async for piece in answer.content.iter_chunked(_READ_SIZE):
                size += len(piece)
                if size > most:
                    raise ManifestInvalid(f"it sends more than {most:,} bytes")
                file.write(piece)

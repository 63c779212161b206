"""After a takeover, the new keeper's fetcher has the settings of its predecessor, without a call from an agent."""

import shlex
import socket
import sys
from pathlib import Path

import pytest

from stoker_sidecar.version.layout import CachePaths
from stoker_sidecar.version.listing import read_listing
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.credentials import AmbientCredentials
from stoker_sidecar.wire.fetcher_protocol import (
    Configure,
    Done,
    Read,
    ReadDone,
    Reply,
    Request,
    decode_reply,
    encode_request,
)
from tests.support.keeper import Keeper
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
UID = "uid-1"
_FETCHER = shlex.join([sys.executable, "-m", "stoker_sidecar.fetcher.main", "--floor-bytes=0", "--host-folder=/"])


def test_missing_bytes_come_from_a_fetcher_that_took_over(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a").write_bytes(b"content")
    node, cache = tmp_path / "node", tmp_path / "cache"
    node.mkdir()
    options = ["--cache-root", str(cache)]
    with Keeper(tmp_path / "a", fetcher=_FETCHER, node=node, options=options) as older:
        read = _configured(older.run_dir / "fetcher.sock", cache, tmp_path / "source")
        with Keeper(tmp_path / "b", fetcher=_FETCHER, node=node, options=options) as newer:
            assert older.stop() == 0
            sock = newer.run_dir / "fetcher.sock"
            wait_until(lambda: _listens(sock))
            assert isinstance(_ask(sock, read), ReadDone)


def _configured(sock: Path, cache: Path, source: Path) -> Read:
    """Send a dataset to a fetcher as the agent does. Return the read of its only file, which is not local."""
    row = {"namespace": "n", "name": "set", "uid": UID, "source": {"uri": f"file://{source}"}, "listingId": "1"}
    wait_until(lambda: _listens(sock))
    assert _ask(sock, Configure(row, AmbientCredentials())) == Done()
    paths = CachePaths(cache).dataset(UID)
    wait_until(lambda: read_listing(paths) is not None)
    listing = read_listing(paths)
    assert listing is not None
    assert _ask(sock, Configure(row | {"version": listing.version}, AmbientCredentials())) == Done()
    manifest = Manifest.open(paths.version(listing.version).manifest)
    entry = manifest.find("a")
    manifest.close()
    assert entry is not None
    return Read(UID, listing.version, entry.ino, 0, entry.size)


def _listens(sock: Path) -> bool:
    """Return True if a fetcher accepts connections: the socket gets its name a moment before."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(sock)) == 0


def _ask(sock: Path, request: Request) -> Reply:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(sock))
        connection.sendall(encode_request(1, request))
        return decode_reply(connection.makefile("rb").readline())[1]

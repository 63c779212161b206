"""The fetcher and its workers are held to their folders, and end when one of those is another by now."""

import asyncio
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from stoker_sidecar.linux import memory_locks
from stoker_sidecar.linux.confinement import Confinement
from stoker_sidecar.linux.memory import FACTS
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire.cache_folder import FolderSpec

_log = logging.getLogger("stoker.fetcher")
# Files that botocore and OpenSSL read by themselves where the environment names them. Kubernetes replaces the files of
# a volume by renaming, so what is allowed is the folder.
_NAMED_FILES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "SSL_CERT_FILE",
)
_LOOK_SECONDS = 5.0
_SORTING = "/var/tmp"  # where SQLite sorts an index that has no room in memory


def confinement_of(
    roots: Sequence[FolderSpec], socket: Path, connection: ConnectionSettings, environment: Mapping[str, str]
) -> Confinement:
    """Return what the fetcher needs: its caches and socket to write, granted folders and credentials' files to read.

    Cache folders that are not there yet are made, as a right is to a folder and not to its name.
    """
    for spec in roots:
        with suppress(OSError):  # it is reported once the folders are opened
            Path(spec.path).mkdir(parents=True, exist_ok=True)
    named = [connection.ca_bundle, *(environment.get(name, "") for name in _NAMED_FILES)]
    readable = [
        *FACTS,
        *memory_locks.FACTS,
        *connection.host_folders,
        *(os.path.dirname(path) for path in named if path),  # noqa: PTH120 -- text in, text out
        *filter(None, [environment.get("SSL_CERT_DIR")]),
        os.path.expanduser("~/.aws"),  # noqa: PTH111 -- a home that is not known raises there
    ]
    writable = [*(spec.path for spec in roots), str(socket.parent), tempfile.gettempdir(), _SORTING]
    return Confinement(readable, writable)


async def end_when_outdated(
    confinement: Confinement,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    end: Callable[[int], None] = os._exit,
) -> None:
    """End this process once it has no right to a folder that took the place of one of its own.

    The keeper starts the next one, which has it, within 0.2 s. A task of its own: a look at a dead NFS mount may hang.
    """
    while not await in_thread(confinement.is_outdated):
        await sleep(_LOOK_SECONDS)
    _log.warning("a folder of the fetcher was replaced by another: the fetcher ends, to be started with a right to it")
    end(1)

"""Confines the fetcher and its workers to their CPUs and folders, and ends them when such a folder was replaced.

The CPUs are the requested ones, or those near the cache disks.
"""

import asyncio
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.fetcher.pages.memory_figures import FACTS
from stoker_sidecar.linux import memory_locks
from stoker_sidecar.linux.cpu_sets import CpuChoice, choose_cpus, cpus_near, parse_cpus, run_on, usable_cpus
from stoker_sidecar.linux.sandbox.confinement import Confinement
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire.config.folders import FolderSpec

_log = logging.getLogger("stoker.fetcher")
AUTO, ALL = "Auto", "All"


def checked_cpus(text: str) -> str:
    """Return Auto, All, or a list of CPUs that can be read. Raises ValueError with a sentence."""
    word = text.strip().capitalize() or AUTO
    if word in (AUTO, ALL):
        return word
    parse_cpus(text)
    return text.strip()


@dataclass(frozen=True)
class CpuMachine:
    """The machine's CPUs, and the call that binds this process to some of them."""

    usable: Callable[[], frozenset[int]] = usable_cpus
    near: Callable[[Iterable[Path]], list[frozenset[int]]] = cpus_near
    run_on: Callable[[frozenset[int]], None] = run_on


def take_cpus(asked: str, folders: Sequence[FolderSpec], machine: CpuMachine | None = None) -> CpuChoice:
    """Run on the chosen CPUs. Call it before threads and zygotes start, because they inherit the CPUs.

    Unavailable CPUs are reported and never keep the fetcher from running.
    """
    machine = machine or CpuMachine()
    usable = machine.usable()
    wanted = None if asked == AUTO else usable if asked == ALL else parse_cpus(asked)
    disks = [Path(folder.path) for folder in folders if not folder.memory]
    choice = choose_cpus(wanted, usable, machine.near(disks) if asked == AUTO else ())
    if asked == ALL:
        choice = CpuChoice(usable, "all that can be used")
    try:
        if choice.cpus != usable:
            machine.run_on(choice.cpus)
    except OSError as error:  # the cgroup changed a moment ago
        choice = CpuChoice(usable, "all that can be used", f"the kernel refused other CPUs: {error.strerror}")
    _log.log(logging.WARNING if choice.trouble else logging.INFO, "runs on %s", choice.sentence)
    return choice


# Files that botocore and OpenSSL read if the environment names them. Kubernetes replaces the files of a volume by
# renaming, so the folder is allowed.
_NAMED_FILES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "SSL_CERT_FILE",
)
_LOOK_SECONDS = 5.0
_SORTING = "/var/tmp"  # SQLite sorts an index there if memory is too small


def confinement_of(
    roots: Sequence[FolderSpec], socket: Path, connection: ConnectionSettings, environment: Mapping[str, str]
) -> Confinement:
    """Return the fetcher's rights: its caches and socket to write, granted folders and credentials' files to read.

    Missing cache folders are created, because a right applies to a folder and not to its name.
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
    """End this process once one of its folders was replaced by a folder that it has no right to.

    The keeper starts the next process, which has the right, within 0.2 s. This runs as a separate task, since a check
    of a dead NFS mount may hang.
    """
    while not await in_thread(confinement.is_outdated):
        await sleep(_LOOK_SECONDS)
    _log.warning("a folder of the fetcher was replaced by another: the fetcher ends, to be started with a right to it")
    end(1)

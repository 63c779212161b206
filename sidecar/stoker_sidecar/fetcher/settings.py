"""The fetcher's settings: command line, then environment, then defaults. Read by main alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator

from stoker_sidecar.fetcher.confinement import checked_cpus
from stoker_sidecar.fetcher.download.core.reader_patience import PATIENCE
from stoker_sidecar.store.core.location import parse_networks
from stoker_sidecar.wire.config.disk_floor import FLOOR_BYTES, FLOOR_INODES, DiskFloor
from stoker_sidecar.wire.config.folders import FolderSpec
from stoker_sidecar.wire.config.settings import (
    Bytes,
    FloorSetting,
    LogLevel,
    ProcessSettings,
    Repeated,
    setting,
)


def _texts(given: str | Sequence[str]) -> list[str]:
    """Several flags, or one text of the environment with commas."""
    texts = given.split(",") if isinstance(given, str) else given
    return [text for text in texts if text]


def _folders(given: str | Sequence[str]) -> tuple[FolderSpec, ...]:
    return tuple(FolderSpec.parse(text) for text in _texts(given))


def _networks(given: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(str(network) for network in parse_networks(_texts(given)))


def _count(text: str) -> int | None:
    if text.lower() == "auto":
        return None
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a number of processes: write 0 or more, or Auto")
    return int(text)


class FetcherSettings(ProcessSettings):
    """Settings of the fetcher.

    Its cache folders and their limits, its requests to sources, and the items from its keeper.
    """

    program: ClassVar[str] = "python -m stoker_sidecar.fetcher.main"
    about: ClassVar[str] = "Fetches datasets from object stores to the cache disk."

    socket: Path = setting("unix socket to serve")
    root: Annotated[tuple[FolderSpec, ...], BeforeValidator(_folders), Repeated()] = setting(
        "cache folder; again for more, the preferred one first; memory:/path for one that lies in memory"
    )
    floor_bytes: FloorSetting = setting(FLOOR_BYTES, str(DiskFloor().bytes))
    floor_inodes: FloorSetting = setting(FLOOR_INODES, str(DiskFloor().inodes))
    read_through: Bytes = setting("disk space for files read through and not kept, per version", "256Mi")
    scrub_days: float = setting("days between two checks of the files of a whole version; 0: never", "7")
    scrub_rate: Bytes = setting("bytes a second that such a check reads", "50Mi")
    read_timeout: float = setting("seconds that a source may be silent before a request is given up", "30")
    read_patience: float = setting("seconds that a read waits for a source that fails for now", f"{PATIENCE:.0f}")
    sts_endpoint: Annotated[str | None, BeforeValidator(lambda text: text or None)] = setting(
        "URL of STS for web identity; none: the region's", ""
    )
    host_folder: Annotated[tuple[str, ...], BeforeValidator(_texts), Repeated()] = setting(
        "folder beneath which file:// sources may be read; again for more; none: file:// is refused",
        "",
        variable="STOKER_HOST_FOLDERS",
    )
    endpoint_networks: Annotated[tuple[str, ...], BeforeValidator(_networks)] = setting(
        "networks by commas that endpoints may be in although they are refused by default, such as 127.0.0.0/8", ""
    )
    confine: Literal["Auto", "Off"] = setting(
        "be held to the files that it needs, where the kernel has Landlock: Auto or Off", "Auto"
    )
    ca_bundle: str = setting("file of the CAs that are trusted; none: certifi's", "", variable="AWS_CA_BUNDLE")
    workers: Annotated[int | None, BeforeValidator(_count)] = setting(
        "processes that fetch; 0: all in this one; Auto: one a core that it may use, 4 at most", "Auto"
    )
    cpus: Annotated[str, AfterValidator(checked_cpus)] = setting(
        "CPUs that it and its workers run on, such as 0-3,8; All; Auto: near the cache disks, where the machine says",
        "Auto",
    )
    pinned_memory: Bytes = setting("bytes that Datasets may keep in memory while they are mounted; 0: none", "0")
    readahead: Bytes = setting("bytes on their way that no reader has asked for yet; 0: none", "64Mi")
    peers: Literal["Auto", "Off"] = setting(
        "take from other nodes what they have and this one is to have too: Auto or Off", "Auto"
    )
    last_files: Literal["Auto", "Off"] = setting(
        "fetch the last hundredth of a version that is fetched as pods read it, for native mounts: Auto or Off",
        "Auto",
    )
    log_level: LogLevel = setting("one of debug, info, warning, error", "info")
    heartbeat_fd: int | None = setting("the line to the keeper that started this process", None)
    memory_fd: int | None = setting("memory that outlives this process, for what it was told", None)

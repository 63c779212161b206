"""The fetcher process: object stores to cache disk. Run it with `python -m stoker_sidecar.fetcher.main --socket S --root R`."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stoker_api.meta import parse_quantity
from stoker_sidecar.errors import CacheDiskFailed
from stoker_sidecar.fetcher.context import NodeDependencies
from stoker_sidecar.fetcher.core.lanes import Bounds
from stoker_sidecar.fetcher.download.policy import KeepWhatCame, PolicyFactory
from stoker_sidecar.fetcher.download.worker_pool import WorkerPool, default_workers
from stoker_sidecar.fetcher.handoff_state import HandoffState
from stoker_sidecar.fetcher.node import CacheNode, CacheSettings
from stoker_sidecar.fetcher.scrub import ScrubSettings
from stoker_sidecar.fetcher.server import Server
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.wire.cache_folder import FolderSpec
from stoker_sidecar.wire.heartbeat import Heartbeat
from stoker_sidecar.worker.zygote import WorkerZygote

_log = logging.getLogger("stoker.fetcher")
# Threads that write to the disk: enough to keep it busy, few enough that their memory does not matter.
_DISK_THREADS = 8
_DAY = 86400.0  # seconds
_DEFAULTS = CacheSettings(())


def main(arguments: Sequence[str] | None = None, policy: PolicyFactory = KeepWhatCame) -> int:
    """Run the fetcher; return 0 after SIGTERM and 1 when no cache folder can be used."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    heartbeat = Heartbeat(options.heartbeat_fd)
    heartbeat.wait_to_begin()
    zygote = WorkerZygote([fd for fd in (options.heartbeat_fd, options.memory_fd) if fd is not None])
    try:
        asyncio.run(_run(options, _settings(options, policy), heartbeat, zygote))
    except CacheDiskFailed as error:
        _log.error("%s", error.message)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stoker-fetcher", description="Fetches datasets from object stores to the cache disk."
    )
    parser.add_argument("--socket", type=Path, required=True, help="unix socket to serve")
    parser.add_argument(
        "--root",
        type=_folder,
        action="append",
        required=True,
        help="cache folder; again for more, the preferred one first; memory:/path for one that lies in memory",
    )
    parser.add_argument(
        "--floor-share",
        type=_share,
        default=_DEFAULTS.floor_share,
        help="share of the disk left free (default %(default)s)",
    )
    parser.add_argument(
        "--floor-most",
        type=_bytes,
        default=_DEFAULTS.floor_most,
        help="most that is left free, such as 10Gi (the default)",
    )
    parser.add_argument(
        "--read-through",
        type=_bytes,
        default=_DEFAULTS.transient_limit,
        help="disk space for files read through and not kept, per version (default 256Mi)",
    )
    parser.add_argument(
        "--scrub-days",
        type=float,
        default=os.environ.get("STOKER_SCRUB_DAYS", "7"),
        help="days between two checks of the files of a whole version; 0: never [STOKER_SCRUB_DAYS; default 7]",
    )
    parser.add_argument(
        "--scrub-rate",
        type=_bytes,
        default=os.environ.get("STOKER_SCRUB_RATE", "50Mi"),
        help="bytes a second that such a check reads [STOKER_SCRUB_RATE; default 50Mi]",
    )
    parser.add_argument(
        "--read-timeout",
        type=float,
        default=ConnectionSettings.read_timeout,
        help="seconds that a source may be silent before a request is given up (default %(default)s)",
    )
    parser.add_argument("--sts-endpoint", default=None, help="URL of STS for web identity (default: the region's)")
    parser.add_argument(
        "--host-folder",
        action="append",
        help="folder beneath which file:// sources may be read; again for more "
        "[STOKER_HOST_FOLDERS, by commas; default: none, so file:// is refused]",
    )
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parser.add_argument("--heartbeat-fd", type=int, help="the line to the keeper that started this process")
    parser.add_argument("--memory-fd", type=int, help="memory that outlives this process, for what it was told")
    _add_pipeline_options(parser)
    return parser


def _add_pipeline_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        type=_count,
        default=os.environ.get("STOKER_WORKERS", "Auto"),
        help="processes that fetch; 0: all in this one; Auto: one a core, 4 at most [STOKER_WORKERS; default Auto]",
    )
    parser.add_argument(
        "--readahead",
        type=_bytes,
        default=os.environ.get("STOKER_READAHEAD", "64Mi"),
        help="bytes on their way that no reader has asked for yet; 0: none [STOKER_READAHEAD; default 64Mi]",
    )


def _count(text: str) -> int:
    if text.lower() == "auto":
        return default_workers()
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes: write 0 or more, or Auto")
    return int(text)


def _folder(text: str) -> FolderSpec:
    try:
        return FolderSpec.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _bytes(text: str) -> int:
    try:
        return parse_quantity(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share: write a number from 0 up to 1, such as 0.05")
    return share


def _host_folders(options: argparse.Namespace) -> tuple[str, ...]:
    given: list[str] | None = options.host_folder
    folders = os.environ.get("STOKER_HOST_FOLDERS", "").split(",") if given is None else given
    return tuple(folder for folder in folders if folder)


def _settings(options: argparse.Namespace, policy: PolicyFactory) -> CacheSettings:
    return CacheSettings(
        folders=tuple(options.root),
        floor_share=options.floor_share,
        floor_most=options.floor_most,
        transient_limit=options.read_through,
        scrub=ScrubSettings(options.scrub_days * _DAY, options.scrub_rate),
        connection=ConnectionSettings(
            read_timeout=options.read_timeout,
            sts_endpoint=options.sts_endpoint,
            host_folders=_host_folders(options),
            ca_bundle=os.environ.get("AWS_CA_BUNDLE", ""),
        ),
        bounds=Bounds(readahead_bytes=options.readahead),
        policy=policy,
    )


async def _run(
    options: argparse.Namespace, settings: CacheSettings, heartbeat: Heartbeat, zygote: WorkerZygote
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(_DISK_THREADS, thread_name_prefix="disk"))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_reader(zygote, zygote.lost)
    pool = WorkerPool(options.workers, settings.connection, loop.time, zygote.launch)
    node = CacheNode(settings, NodeDependencies(fetcher=pool) if options.workers else None)
    await node.open()
    await pool.open()
    server = Server(node, options.socket, HandoffState(options.memory_fd))
    await server.start()
    _log.info("serving %s, cache in %s", options.socket, ", ".join(map(str, settings.folders)))
    sending = asyncio.create_task(heartbeat.send_forever())
    await stop.wait()
    sending.cancel()
    _log.info("stopping")
    await server.close()
    await node.close()
    await pool.close()


if __name__ == "__main__":
    sys.exit(main())

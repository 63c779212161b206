"""The fetcher process: object stores to cache disk.

Run it with `python -m stoker_sidecar.fetcher.main --socket S --root R`.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from stoker_api.log_lines import log_to_stderr
from stoker_sidecar.errors import CacheDiskFailed
from stoker_sidecar.fetcher.confinement import confinement_of, end_when_outdated, take_cpus
from stoker_sidecar.fetcher.datasets.node_context import NodeDependencies
from stoker_sidecar.fetcher.handoff_state import HandoffState
from stoker_sidecar.fetcher.node.cache_node import CacheNode, CacheSettings
from stoker_sidecar.fetcher.node.pinning import PinSettings
from stoker_sidecar.fetcher.node.scrub import ScrubSettings
from stoker_sidecar.fetcher.pages.core.page_room import MemoryFigures
from stoker_sidecar.fetcher.pages.memory_figures import hold
from stoker_sidecar.fetcher.pages.page_cache import memory_now
from stoker_sidecar.fetcher.server import Server
from stoker_sidecar.fetcher.settings import FetcherSettings
from stoker_sidecar.fetcher.sources.core.lanes import Bounds
from stoker_sidecar.fetcher.sources.worker_pool import WorkerPool, default_workers
from stoker_sidecar.linux.sandbox.confinement import Confinement
from stoker_sidecar.linux.sandbox.landlock import TcpAccess
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.wire.config.disk_floor import DiskFloor
from stoker_sidecar.wire.heartbeat import Heartbeat
from stoker_sidecar.worker.main import WorkerZygote

_log = logging.getLogger("stoker.fetcher")
# Threads that write to the disk: enough to keep it busy, few enough that their memory does not matter.
_DISK_THREADS = 8
_DAY = 86400.0  # seconds


def main(
    arguments: Sequence[str] | None = None,
    memory: Callable[[], MemoryFigures] = memory_now,
) -> int:
    """Run the fetcher; return 0 after SIGTERM and 1 when no cache folder can be used."""
    settings = FetcherSettings.parse(sys.argv[1:] if arguments is None else arguments)
    log_to_stderr(settings.log_level)
    heartbeat = Heartbeat(settings.heartbeat_fd)
    heartbeat.wait_to_begin()
    choice = take_cpus(settings.cpus, settings.root)  # before a zygote or a thread starts, which inherit the CPUs
    cache = cache_settings(settings, choice.sentence)
    hold()
    confinement = confinement_of(cache.folders, settings.socket, cache.connection, os.environ)
    if settings.confine == "Auto":
        confinement.begin(no_tcp=TcpAccess.BIND)
    zygote = WorkerZygote([fd for fd in (settings.heartbeat_fd, settings.memory_fd) if fd is not None])
    try:
        asyncio.run(_run(settings, cache, heartbeat, zygote, confinement, memory))
    except CacheDiskFailed as error:
        _log.error("%s", error.message)
        return 1
    return 0


def cache_settings(settings: FetcherSettings, cpus: str = "") -> CacheSettings:
    """Convert the settings to those of the cache."""
    return CacheSettings(
        folders=settings.root,
        floor=DiskFloor(settings.floor_bytes, settings.floor_inodes),
        transient_limit=settings.read_through,
        scrub=ScrubSettings(settings.scrub_days * _DAY, settings.scrub_rate),
        connection=ConnectionSettings(
            read_timeout=settings.read_timeout,
            sts_endpoint=settings.sts_endpoint,
            host_folders=settings.host_folder,
            endpoint_networks=settings.endpoint_networks,
            ca_bundle=settings.ca_bundle,
        ),
        bounds=Bounds(readahead_bytes=settings.readahead),
        peers=settings.socket.parent,
        ask_peers=settings.peers == "Auto",
        last_files=settings.last_files == "Auto",
        pinning=PinSettings(settings.pinned_memory),
        cpus=cpus,
        patience=settings.read_patience,
    )


def _end_stopped(pool: WorkerPool, zygote: WorkerZygote) -> None:
    pool.end_stopped()
    zygote.end_if_stopped()


async def _run(
    settings: FetcherSettings,
    cache: CacheSettings,
    heartbeat: Heartbeat,
    zygote: WorkerZygote,
    confinement: Confinement,
    memory: Callable[[], MemoryFigures],
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(_DISK_THREADS, thread_name_prefix="disk"))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_reader(zygote, zygote.lost)
    workers = default_workers() if settings.workers is None else settings.workers
    pool = WorkerPool(workers, cache.connection, loop.time, zygote.launch)
    loop.add_signal_handler(signal.SIGCHLD, partial(_end_stopped, pool, zygote))
    outside = NodeDependencies(fetcher=pool, memory=memory) if workers else NodeDependencies(memory=memory)
    node = CacheNode(cache, outside)
    await node.open()
    await pool.open()
    handoff = HandoffState(settings.memory_fd)
    server = Server(node, settings.socket, handoff)
    await server.start()
    _log.info("serving %s, cache in %s", settings.socket, ", ".join(map(str, cache.folders)))
    beside = [
        asyncio.create_task(heartbeat.send_forever(asyncio.sleep)),
        asyncio.create_task(end_when_outdated(confinement)),
    ]
    await stop.wait()
    for task in beside:
        task.cancel()
    _log.info("stopping")
    await server.close()
    handoff.close()
    await node.close()
    await pool.close()


if __name__ == "__main__":
    sys.exit(main())

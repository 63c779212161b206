"""What it is worth that nodes divide what is cold: `python -m bench.divided [NODES [REPEATS]]`.

Fetchers, each a process with its workers, its cache folder and its server for the others, warm one Dataset at the same
time from a bucket behind a line of 25 MB/s that they share; with `divide_cold` and without, in turn. Each line has what
the bucket sent over the size of the data, and the seconds until all nodes had all of it.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from bench.errors import BenchError
from bench.objects import write_object
from bench.proxy import DelayingProxy
from bench.server import BUCKET, REGION, S3Server
from stoker_api.meta import ObjectMeta
from stoker_api.node_dataset import NodeDataset
from stoker_api.nodecache import NodeCache, NodeCacheSpec, NodePhase
from stoker_operator.webhook.certs import renewed_peer
from stoker_sidecar.agent.peer_files import PeerFiles
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.context import NodeDependencies
from stoker_sidecar.fetcher.download.worker_pool import WorkerPool
from stoker_sidecar.fetcher.node import CacheNode, CacheSettings
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.cache_folder import FolderSpec
from stoker_sidecar.wire.credentials import AmbientCredentials
from stoker_sidecar.wire.fetcher_protocol import (
    FETCHED_BYTES,
    Configure,
    Failed,
    FileKnobs,
    Have,
    Reply,
    Tune,
)
from stoker_sidecar.wire.peer_tls import PeerTls

_MIB = 2**20
_UID = "bench-divided"
_CASES = {"small": (3000, 50_000), "shards": (12, 16 * _MIB), "one": (1, 192 * _MIB)}
_PORT = 18_700


async def node(root: Path, endpoint: str, prefix: str, position: int, peers: tuple[str, ...], divided: bool) -> None:
    """Be one node: list, say so, wait for a line, warm up, say how long that took, and serve until the input ends."""
    settings = CacheSettings((FolderSpec(str(root / f"cache-{position}")),), peers=root)
    pool = WorkerPool(1, settings.connection, time.monotonic)
    cache = CacheNode(settings, NodeDependencies(fetcher=pool))
    await cache.open()
    await pool.open()
    row = {"namespace": "bench", "name": "divided", "uid": _UID, "listingId": "1", "peers": peers, "position": position}
    row["source"] = {"uri": f"s3://{BUCKET}/{prefix}/", "endpoint": endpoint, "region": REGION}
    await cache.configure(Configure(row, AmbientCredentials()))
    digest = await _until(cache, lambda status: (status.get("listing") or {}).get("version"))
    row["version"] = digest
    runner = web.AppRunner(_server(cache, root / f"cache-{position}", row))
    await runner.setup()
    tls = PeerTls(**json.loads((root / "peer.json").read_text())).server_context()
    await web.TCPSite(runner, "127.0.0.1", _PORT + position, ssl_context=tls).start()
    await cache.configure(Configure(row, AmbientCredentials()))
    await _until(cache, lambda status: status["phase"] == NodePhase.IDLE)
    cache.tune(Tune(_UID, str(digest), (FileKnobs(divided=divided),)))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    began = time.monotonic()
    await cache.configure(Configure(row | {"eager": True}, AmbientCredentials()))
    await _until(cache, lambda status: status["phase"] == NodePhase.WARM)
    seconds = time.monotonic() - began
    fetched = sum(count.value for count in cache.progress().counts if count.name == FETCHED_BYTES)
    print(json.dumps([seconds, fetched]), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)


def _server(cache: CacheNode, folder: Path, row: dict[str, object]) -> web.Application:
    async def ask(request: Have) -> Reply:
        try:
            return cache.have(request)
        except SidecarError as error:
            return Failed(error.errno, error.message)

    plan, application = NodePlan(), web.Application()
    spec = NodeCacheSpec(datasets=(NodeDataset.model_validate(row),))
    plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="bench"), spec=spec))
    PeerFiles(plan, CacheFolders([folder]), ask).add_to(application)
    return application


async def _until(cache: CacheNode, said: Callable[[Mapping[str, Any]], object]) -> object:
    while True:
        for status in cache.progress().datasets:
            if found := said(status):
                return found
        await asyncio.sleep(0.01)


def measure(server: S3Server, endpoint: str, prefix: str, nodes: int, *, divided: bool) -> tuple[float, int]:
    """Return the seconds until all nodes had everything, and the bytes that the bucket sent."""
    with tempfile.TemporaryDirectory(prefix="divided-", dir="/var/tmp") as name:
        material = renewed_peer(None, datetime.now(UTC))
        texts = (material.authorities, material.certificate, material.key)
        PeerTls(*(text.decode() for text in texts)).leave(Path(name))
        addresses = [f"127.0.0.1:{_PORT + position}" for position in range(nodes)]
        children = []
        for position, own in enumerate(addresses):
            others = ",".join(address for address in addresses if address != own)
            words = [sys.executable, "-m", "bench.divided", "node", name, endpoint, prefix, str(position), others]
            child = subprocess.Popen(
                [*words, str(int(divided))],
                env=server.client_variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            children.append(child)
        try:
            for child in children:
                if _line(child) != "ready":
                    raise BenchError("a node ended before it was ready; it said why on standard error")
            for child in children:
                print("go", file=child.stdin, flush=True)
            results = [json.loads(_line(child)) for child in children]
        finally:
            for child in children:
                child.communicate()
        return max(seconds for seconds, _ in results), sum(fetched for _, fetched in results)


def _line(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None, "made with a pipe"
    return child.stdout.readline().strip()


def main() -> None:
    """Print one line a case."""
    nodes, repeats = (int(word) for word in (sys.argv[1:] + ["2", "3"][len(sys.argv) - 1 :])[:2])
    with tempfile.TemporaryDirectory(prefix="divided-", dir="/dev/shm") as name, S3Server(Path(name)) as server:
        for prefix, (files, size) in _CASES.items():
            (server.bucket / prefix).mkdir()
            for number in range(files):
                write_object(server.bucket / prefix / f"{number:05}", os.urandom(size), checksums=False)
            with DelayingProxy(server.port, "PBW") as proxy:
                for _ in range(repeats):
                    pair = [measure(server, proxy.endpoint, prefix, nodes, divided=on) for on in (False, True)]
                    (off, sent_off), (on, sent_on) = pair
                    total = files * size
                    print(
                        f"{prefix:8} {nodes} nodes: {sent_off / total:.3f} x the data in {off:6.2f} s without, "
                        f"{sent_on / total:.3f} x in {on:6.2f} s with",
                        flush=True,
                    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["node"]:
        _, _, root, endpoint, prefix, position, others, divided = sys.argv
        work = node(Path(root), endpoint, prefix, int(position), tuple(others.split(",")), divided == "1")
        asyncio.run(work)
    else:
        main()

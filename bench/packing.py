"""What compressed copies are worth where not all fits: `python -m bench.packing [PROFILE...]`, as root.

Three kinds of data, each mounted by `stoker mount` of a server behind a line (25 MB/s for PBW), with a quota of half of
it: without rules, with `compression: auto`, and with `compression: on`. Each row has the seconds of the cold warm-up,
of two epochs in random order by two readers after that, the page cache dropped before each, and what the server sent
in the last one. What does not fit is more than the 256 MiB of a version that are held for a while when read through.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.objects import write_object
from bench.proxy import DelayingProxy
from bench.server import BUCKET, S3Server

_MIB = 2**20
_READERS = 2
_FILES = 1600
_SIZE = 400_000
_DOCUMENT = """
apiVersion: stoker.dev/v1alpha1
kind: TuningProfile
metadata: {{name: bench}}
spec: {{rules: [{{id: it, conditions: [], actions: [{{type: compress, parameters: {{compression: "{word}"}}}}]}}]}}
"""


def lines_of_text(chance: random.Random) -> bytes:
    """Return JSON lines of words that are as frequent as those of a language are."""
    words = [f"{chance.getrandbits(40):x}"[: chance.randint(2, 9)] for _ in range(5000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    rows, size = [], 0
    while size < _SIZE:
        text = " ".join(chance.choices(words, weights, k=60))
        rows.append(json.dumps({"id": chance.getrandbits(32), "text": text}).encode() + b"\n")
        size += len(rows[-1])
    return b"".join(rows)[:_SIZE]


def tokens(chance: random.Random) -> bytes:
    """Return numbers of tokens, 16 bits each."""
    picked = chance.choices(range(30_000), [1 / (rank + 1) for rank in range(30_000)], k=_SIZE // 2)
    return b"".join(token.to_bytes(2, "little") for token in picked)


def noise(chance: random.Random) -> bytes:
    """Return what cannot become smaller, as images are."""
    return chance.randbytes(_SIZE)


KINDS: dict[str, Callable[[random.Random], bytes]] = {"jsonl": lines_of_text, "tokens": tokens, "jpg": noise}


def fill(bucket: Path) -> None:
    """Lay out the data, a folder a kind."""
    for suffix, make in KINDS.items():
        chance = random.Random(suffix)
        (bucket / suffix).mkdir(parents=True)
        bodies = [make(chance) for _ in range(20)]
        for number in range(_FILES):
            head = f"{number:08}".encode()
            write_object(bucket / suffix / f"{number:05}.{suffix}", head + bodies[number % 20][8:], checksums=False)


def epoch(data: Path, seed: int) -> float:
    """Read all files once in random order, from a cold page cache; the seconds."""
    files = sorted(path for path in data.iterdir())
    random.Random(seed).shuffle(files)
    Path("/proc/sys/vm/drop_caches").write_text("3")
    began = time.perf_counter()
    with ThreadPoolExecutor(_READERS) as readers:
        read = sum(readers.map(lambda path: len(path.read_bytes()), files))
    assert read == _FILES * _SIZE
    return time.perf_counter() - began


def row(suffix: str, word: str, endpoint: str, server: S3Server) -> str:
    """Mount, read, and return a line."""
    with tempfile.TemporaryDirectory(prefix="packing-", dir="/var/tmp") as name:
        folder = Path(name)
        data, cache, rules = folder / "data", folder / "cache", folder / "rules.yaml"
        data.mkdir()
        rules.write_text(_DOCUMENT.format(word=word))
        stoker = [sys.executable, "-c", "from stoker_cli.entry import main; main()"]
        where, tuning = ["--run-dir", str(folder / "run")], ["--tuning", str(rules)] if word else ["--no-tuning"]
        options = ["--cache", str(cache), "--endpoint", endpoint, "--quota", str(_FILES * _SIZE // 2), "--warm"]
        url, environment = f"s3://{BUCKET}/{suffix}", server.client_variables
        began = time.perf_counter()
        mount = [*stoker, "mount", url, str(data), *options, *tuning, *where]
        subprocess.run(mount, check=True, env=environment, capture_output=True)
        try:
            warm = time.perf_counter() - began
            first = epoch(data, 1)
            position = server.position()
            second = epoch(data, 2)
            sent = server.asked(position).gets * _SIZE
            copies = list(cache.glob("*/cache/datasets/*/versions/*/packed/*.zst"))
            ratio = len(copies) * _SIZE / max(1, sum(path.stat().st_size for path in copies))
        finally:
            subprocess.run([*stoker, "umount", "--force", str(data), *where], check=True, env=environment)
    epochs = f"{statistics.mean((first, second)):6.2f} s [{min(first, second):.2f}-{max(first, second):.2f}]"
    return (
        f"{suffix:8} {word or 'no rule':8} {warm:6.2f} s {epochs} {sent / _MIB:7.1f} MiB  {len(copies)} x {ratio:.1f}"
    )


def main() -> None:
    """Print one line a kind and rule."""
    with tempfile.TemporaryDirectory(prefix="packing-", dir="/dev/shm") as name, S3Server(Path(name)) as server:
        fill(server.bucket)
        for profile in sys.argv[1:] or ["PBW"]:
            with DelayingProxy(server.port, profile) as proxy:
                print(f"{profile}: warm-up, epoch, sent in an epoch, copies", flush=True)
                for suffix in KINDS:
                    for word in ("", "auto", "on"):
                        print(row(suffix, word, proxy.endpoint, server), flush=True)


if __name__ == "__main__":
    main()

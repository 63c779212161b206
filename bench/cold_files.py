"""What a cold small file costs in CPU, by process: `python -m bench.cold_files` reads a cold epoch and tells it.

Each case begins with an empty node: a version is read by several readers while nothing of it is on the disk, with the
order known and without, or warmed up and read by nobody; or worker processes fetch it alone, without a node. ``s5cmd``
copies the same objects beside it. A process counts with its children that have ended, such as the agent's program that
builds the metadata layer.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from bench.environment import Environment, scratch_folder
from bench.first_touch import take_memory
from bench.measure import cpu_seconds, drop_page_cache, tree
from bench.node import Node, Volume
from bench.objects import paths
from bench.peers import s5cmd_copy
from bench.readers import Job, read_jobs
from bench.scale import SCALES, SMALL_BYTES, TINY_BYTES, Corpus
from bench.server import BUCKET, REGION, S3Server
from bench.systems import S5CMD, cold_mount
from stoker_api.dataset_source import Source
from stoker_api.sampling import SampleFilesSpec, Sampling
from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from stoker_orders.sampling_plan import SampleLayout
from stoker_sidecar.fetcher.download.worker_pool import WorkerPool
from stoker_sidecar.store.base import Retry
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.opening import StoreHandle, open_store
from stoker_sidecar.wire.credentials import StaticCredentials
from stoker_sidecar.worker.transfer import Piece

_SEED, _BATCH = 7, 64
_FILES = SampleFilesSpec(layout=SampleLayout.SHARDS)  # all files, by name
GUESSED, KNOWN, WARMED = "read, guessed", "read, order known", "warmed, nobody reads"
PIECES = "workers alone"  # two of them, with no fetcher: what they cost where nothing else wakes or waits
CASES = (GUESSED, KNOWN, WARMED, PIECES)
_WORKERS, _IN_FLIGHT = 2, 64


@dataclass(frozen=True)
class ColdRun:
    """One run: files a second, and milliseconds of CPU a file by kind of process."""

    rate: float
    cpu: dict[str, float]

    @property
    def total_cpu(self) -> float:
        """Milliseconds of CPU a file, of all processes."""
        return sum(self.cpu.values())

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {ms:.3f}" for name, ms in self.cpu.items())
        return f"{self.rate:7,.0f} files/s {self.total_cpu:.3f} ms CPU a file ({parts})"


def read_cold(env: Environment, corpus: Corpus, prefix: str, endpoint: str, readers: int, case: str) -> ColdRun:
    """Run a case on a node of its own. Raises BenchError."""
    _ready(corpus)
    if case == PIECES:
        return asyncio.run(fetch_pieces(env, corpus, prefix, endpoint))
    with env.node(endpoint) as node:
        work = _work(node, node.list_source(prefix), corpus, readers, case)
        before = _cpu(node)
        seconds = work()
        after = _cpu(node)
    spent = {kind: 1000 * (after[kind] - before.get(kind, 0.0)) / corpus.files for kind in sorted(after)}
    return ColdRun(corpus.files / seconds, {kind: ms for kind, ms in spent.items() if ms >= 0.0005})


def _work(node: Node, volume: Volume, corpus: Corpus, readers: int, case: str) -> Callable[[], float]:
    """Prepare what is measured; when it is called, it returns the seconds that it took."""

    def warm() -> float:
        began = time.monotonic()
        node.warm(volume)
        return time.monotonic() - began

    if case == WARMED:
        return warm
    files = sorted(paths(corpus))
    order = [files[number] for number in SAMPLERS[SamplerName.TORCH_DISTRIBUTED].order(len(files), _SEED, 0)]
    node.offer(volume)
    sampling = Sampling(seed=_SEED, batch=_BATCH, loaders=readers, epochs=3, ranks=1, files=_FILES).text()
    root = node.publish(volume, sampling) if case == KNOWN else cold_mount(node, volume)
    return lambda: read_jobs(root, _dealt(order, readers), corpus.total_bytes).seconds


def _ready(corpus: Corpus) -> None:
    """Have each run begin alike, as B6 does: nothing cached, and memory that the host has given."""
    drop_page_cache()
    take_memory(corpus.total_bytes + corpus.total_bytes // 4 + 2**28)


def _cpu(node: Node) -> dict[str, float]:
    """Return the CPU seconds so far by kind of process: workers are told together, as are FUSE servers."""
    spent: dict[str, float] = {}
    for name, pid in node.sidecar.pids().items():
        kind = name.rstrip("0123456789 ")
        spent[kind] = spent.get(kind, 0.0) + cpu_seconds(pid)
    return spent


def _dealt(order: Sequence[str], readers: int) -> list[Job]:
    """Deal an epoch's batches out to the readers, as PyTorch's DataLoader does."""
    batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
    return [Job([path for batch in batches[one::readers] for path in batch]) for one in range(readers)]


async def fetch_pieces(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> ColdRun:
    """Have worker processes fetch all objects into a folder. Raises SidecarError."""
    source = Source.model_validate({"uri": f"s3://{BUCKET}/{prefix}/", "endpoint": endpoint, "region": REGION})
    keys = StaticCredentials(access_key_id=env.server.access_key, secret_access_key=env.server.secret_key)
    handle = StoreHandle(source, keys, partial(open_store, settings=ConnectionSettings(), retry=Retry(asyncio.sleep)))
    pool = WorkerPool(_WORKERS, ConnectionSettings(), time.monotonic)
    files = list(enumerate(paths(corpus)))
    await pool.open()
    try:
        await _fetch_all(pool, handle, files[:_IN_FLIGHT], corpus.size, env.scratch / "first")  # imports, connections
        pids = [pid for pid in tree(os.getpid()) if _is_worker(pid)]
        before, began = sum(map(cpu_seconds, pids)), time.monotonic()
        await _fetch_all(pool, handle, files, corpus.size, env.scratch / "pieces")
        seconds = time.monotonic() - began
        return ColdRun(corpus.files / seconds, {"worker": 1000 * (sum(map(cpu_seconds, pids)) - before) / corpus.files})
    finally:
        await pool.close()
        for name in ("first", "pieces"):
            shutil.rmtree(env.scratch / name, ignore_errors=True)


async def _fetch_all(
    pool: WorkerPool, handle: StoreHandle, files: Sequence[tuple[int, str]], size: int, folder: Path
) -> None:
    for parent in {Path(name).parent for _, name in files} | {Path("parts")}:
        (folder / parent).mkdir(parents=True)
    left = iter(files)

    async def lane() -> None:
        for number, name in left:
            into, target = str(folder / "parts" / str(number)), str(folder / name)
            await pool.fetch(handle, Piece(name, "", "", 0, size, into, target, size, 10**18, False), lambda here: None)

    await asyncio.gather(*(lane() for _ in range(_IN_FLIGHT)))


def _is_worker(pid: int) -> bool:
    return b"stoker_sidecar.worker.main" in Path(f"/proc/{pid}/cmdline").read_bytes()


def copy_by_s5cmd(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> ColdRun:
    """Copy all objects with s5cmd. Raises BenchError."""
    _ready(corpus)
    copy = s5cmd_copy(env.server, prefix, env.scratch / "copy", endpoint)
    shutil.rmtree(env.scratch / "copy")
    return ColdRun(corpus.files / copy.seconds, {S5CMD: 1000 * copy.cpu / corpus.files})


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(prog="python -m bench.cold_files", description=__doc__)
    found.add_argument("--files", type=int, default=8000, help="objects of each size (default %(default)s)")
    sizes = [SMALL_BYTES, TINY_BYTES]
    found.add_argument("--bytes", type=int, nargs="+", default=sizes, help="sizes of objects (default %(default)s)")
    found.add_argument("--readers", type=int, default=4, help="default %(default)s")
    found.add_argument("--case", nargs="+", choices=CASES, default=CASES, help="default: all")
    found.add_argument("--profile", default="P0", help="how far the server is, P20: 20 ms (default %(default)s)")
    found.add_argument("--rounds", type=int, default=3, help="runs of each, in turn (default %(default)s)")
    found.add_argument("--cache-dir", type=Path, default=Path("/var/tmp"), help="disk to measure (default %(default)s)")
    found.add_argument("--data-dir", type=Path, default=Path("/dev/shm"), help="the server's (default %(default)s)")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print each run, and each case's medians; return the exit code."""
    options = parser().parse_args(argv)
    with contextlib.ExitStack() as stack:
        scratch, data = (stack.enter_context(scratch_folder(where)) for where in (options.cache_dir, options.data_dir))
        server = stack.enter_context(S3Server(data))
        env = Environment(server, scratch, SCALES["brief"], lambda line: print(line, file=sys.stderr, flush=True))
        for size in options.bytes:
            corpus = Corpus(options.files, size, max(1, options.files // 100))
            prefix = stack.enter_context(env.corpus(f"cold-{size}", corpus))
            endpoint = stack.enter_context(env.profile(options.profile))
            _measure(env, corpus, prefix, endpoint, options)
    return 0


def _measure(env: Environment, corpus: Corpus, prefix: str, endpoint: str, options: argparse.Namespace) -> None:
    runs: dict[str, list[ColdRun]] = {case: [] for case in (S5CMD, *options.case)}
    for _ in range(options.rounds):
        for case, mine in runs.items():
            run = (
                copy_by_s5cmd(env, corpus, prefix, endpoint)
                if case == S5CMD
                else read_cold(env, corpus, prefix, endpoint, options.readers, case)
            )
            mine.append(run)
            print(f"{corpus.size:>7} B {options.profile} {case:22} {run}", flush=True)
    for case, mine in runs.items():
        kinds = sorted({kind for run in mine for kind in run.cpu})
        middle = {kind: median(run.cpu.get(kind, 0.0) for run in mine) for kind in kinds}
        print(f"{corpus.size:>7} B {options.profile} {case:22} {ColdRun(median(r.rate for r in mine), middle)} median")


if __name__ == "__main__":
    sys.exit(main())

"""A model that a pod loads with safetensors, which maps files: warm, cold, and cold while other files are warmed."""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache, take_memory
from bench.objects import paths, tensor_bytes
from bench.readers import Job, read_jobs
from bench.report import Row, sampled
from bench.scale import Corpus
from bench.systems import NATIVE, S5CMD, STOKER, STOKER_NATIVE, new_mount, whole_volume
from bench.workloads.tuning import MODEL, PROFILE, model_dataset

CAT = "cat"


def measure(env: Environment) -> Iterator[Row]:
    """Yield the seconds of each load, beside `cat` of the same files and a copy of the model by s5cmd."""
    model = env.scale.cells.model
    size = f"{model.total_bytes / 1e9:.2f} GB in {model.files} files"
    with model_dataset(env) as prefix, env.profile(PROFILE) as endpoint:
        copied = partial(_copied, env, f"{prefix}/{MODEL}", endpoint)
        for state, eager in (("cold", False), ("cold beside a warm-up", True)):
            load, cat = (partial(_cold, env, prefix, endpoint, way, eager=eager) for way in (_load, _cat))
            runs = {S5CMD: copied, STOKER: load, f"{STOKER}, {CAT}": cat}
            yield from _rows(env, f"{state}, {size}, {PROFILE}", runs, S5CMD)
        with env.node() as node:
            volume, target = whole_volume(node, prefix)
            tree = volume.paths.tree
            ways = {CAT: (_cat, tree), NATIVE: (_load, tree), STOKER_NATIVE: (_load, target)}
            warm = {system: partial(_warm, model, way, root / MODEL) for system, (way, root) in ways.items()}
            yield from _rows(env, f"warm, page cache dropped, {size}", warm, CAT)


def _rows(env: Environment, case: str, runs: Mapping[str, Callable[[], float]], against: str) -> Iterator[Row]:
    yield from sampled("model", case, "s", env.in_turns(f"model: {case}", runs), against)


def _copied(env: Environment, prefix: str, endpoint: str) -> float:
    return env.copied(prefix, endpoint, env.scale.cells.model.total_bytes)[0].seconds


def _cold(env: Environment, prefix: str, endpoint: str, way: Callable[[Path, Corpus], float], *, eager: bool) -> float:
    """Return the seconds of a load on a new node, from the pod's mount on."""
    drop_page_cache()
    take_memory(env.scale.cells.model.total_bytes)
    with env.node(endpoint) as node:
        return way(new_mount(node, prefix, eager=eager) / MODEL, env.scale.cells.model)


def _warm(model: Corpus, way: Callable[[Path, Corpus], float], root: Path) -> float:
    drop_page_cache()
    return way(root, model)


def _load(root: Path, model: Corpus) -> float:
    """Load every tensor. Return the seconds."""
    jobs = [Job(sorted(paths(model)))]
    expected = model.files * model.tensors * tensor_bytes(model)
    return read_jobs(root, jobs, expected, module="bench.programs.tensors").seconds


def _cat(root: Path, model: Corpus) -> float:
    start = time.monotonic()
    subprocess.run([CAT, *(root / path for path in paths(model))], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - start

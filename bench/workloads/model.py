"""A model that a pod loads: warm, cold, and cold while other files are warmed.

The loaders are safetensors, which maps files, and Run:ai's model streamer and fastsafetensors where they are installed.
"""

import subprocess
import sys
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
# The environment of tools/install-clients.sh with the loaders that need PyTorch.
_PEERS_PYTHON = Path(sys.prefix) / "trainer" / "bin" / "python"
_Way = Callable[[Path, Corpus], float]


def measure(env: Environment) -> Iterator[Row]:
    """Yield the seconds of each load, of `cat` of the same files, and of a copy of the model by s5cmd."""
    model = env.scale.cells.model
    size = f"{model.total_bytes / 1e9:.2f} GB in {model.files} files"
    with model_dataset(env) as prefix, env.profile(PROFILE) as endpoint:
        copied = partial(_copied, env, f"{prefix}/{MODEL}", endpoint)
        peers = _peer_loaders()
        for state, eager in (("cold", False), ("cold beside a warm-up", True)):
            ways = {STOKER: _load} | {f"{STOKER}, {name}": way for name, way in ({CAT: _cat} | peers).items()}
            runs = {system: partial(_cold, env, prefix, endpoint, way, eager=eager) for system, way in ways.items()}
            yield from _rows(env, f"{state}, {size}, {PROFILE}", {S5CMD: copied} | runs, S5CMD)
        with env.node() as node:
            volume, target = whole_volume(node, prefix)
            roots = {NATIVE: volume.paths.tree / MODEL, STOKER_NATIVE: target / MODEL}
            warm = {CAT: partial(_warm, model, _cat, roots[NATIVE])}
            warm |= {system: partial(_warm, model, _load, root) for system, root in roots.items()}
            for name, way in peers.items():
                warm |= {f"{system}, {name}": partial(_warm, model, way, root) for system, root in roots.items()}
            yield from _rows(env, f"warm, page cache dropped, {size}", warm, CAT)


def _peer_loaders() -> dict[str, _Way]:
    """Return the loaders of other projects by name. Empty if tools/install-clients.sh did not run."""
    if not _PEERS_PYTHON.exists():
        return {}
    programs = {"Run:ai streamer": "streamed_tensors", "fastsafetensors": "fast_tensors"}
    return {name: partial(_load, program=program, python=_PEERS_PYTHON) for name, program in programs.items()}


def _rows(env: Environment, case: str, runs: Mapping[str, Callable[[], float]], against: str) -> Iterator[Row]:
    yield from sampled("model", case, "s", env.in_turns(f"model: {case}", runs), against)


def _copied(env: Environment, prefix: str, endpoint: str) -> float:
    return env.copied(prefix, endpoint, env.scale.cells.model.total_bytes)[0].seconds


def _cold(env: Environment, prefix: str, endpoint: str, way: _Way, *, eager: bool) -> float:
    """Return the seconds of a load on a new node with an empty cache.

    The loader starts right after the mount. The seconds exclude the start of its process, in which a warm-up runs.
    """
    drop_page_cache()
    take_memory(env.scale.cells.model.total_bytes)
    with env.node(endpoint) as node:
        return way(new_mount(node, prefix, eager=eager) / MODEL, env.scale.cells.model)


def _warm(model: Corpus, way: _Way, root: Path) -> float:
    drop_page_cache()
    return way(root, model)


def _load(root: Path, model: Corpus, program: str = "tensors", python: Path | str = sys.executable) -> float:
    """Load every tensor. Return the seconds."""
    jobs = [Job(sorted(paths(model)))]
    expected = model.files * model.tensors * tensor_bytes(model)
    return read_jobs(root, jobs, expected, module=f"bench.programs.{program}", python=str(python)).seconds


def _cat(root: Path, model: Corpus) -> float:
    start = time.monotonic()
    command = [CAT, *(str(root / path) for path in paths(model))]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, start_new_session=True)  # as the other loaders are
    return time.monotonic() - start

"""The time that `stoker mount`, `umount`, and the restart of a sidecar keep users and pods waiting."""

import os
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from compileall import compile_dir
from functools import partial
from importlib.util import find_spec

from bench.environment import Environment
from bench.node import Node
from bench.objects import paths
from bench.profiling import run_stoker
from bench.report import Row
from bench.scale import SMALL_BYTES, Corpus
from bench.server import BUCKET
from bench.systems import STOKER, cold_volume

_PACKAGES = ("stoker_api", "stoker_cli", "stoker_kube", "stoker_orders", "stoker_sidecar", "stoker_tuning")
_CORPUS = Corpus(100, SMALL_BYTES, 4)
_FETCHERS = ("fetcher zygote", "fetcher")
_UNITS = ("s to mount", "s to the first byte", "s to unmount")


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows of mounts on one machine, and of a node whose sidecar processes are killed."""
    _compile()
    with env.corpus("start", _CORPUS) as prefix:
        yield from _mounts(env, prefix)
        yield from _nodes(env, prefix)


def _compile() -> None:
    """Compile the packages, as pip does at installation. A checkout may forbid bytecode files."""
    for name in _PACKAGES:
        spec = find_spec(name)
        for folder in (spec and spec.submodule_search_locations) or ():
            compile_dir(folder, quiet=1)


def _mounts(env: Environment, prefix: str) -> Iterator[Row]:
    case = f"stoker mount, {_CORPUS.files} objects, nothing cached"
    samples = [_mount(env, prefix) for _ in env.repeat(f"start: {case}")]
    for unit, seconds in zip(_UNITS, zip(*samples, strict=True), strict=True):
        yield Row("start", case, STOKER, unit, seconds)


def _mount(env: Environment, prefix: str) -> tuple[float, float, float]:
    """Mount, read a file and unmount. Return the seconds from the command to each of the first two, and of the last."""
    folder = env.scratch / "mount"
    data, where = folder / "data", ("--run-dir", str(folder / "run"))
    data.mkdir(parents=True)
    environment = env.server.client_variables | {"AWS_ENDPOINT_URL": env.server.endpoint}
    begun = time.monotonic()
    try:
        run_stoker(environment, "mount", f"s3://{BUCKET}/{prefix}", str(data), "--cache", str(folder / "cache"), *where)
        mounted = time.monotonic() - begun
        (data / next(paths(_CORPUS))).read_bytes()
        read = time.monotonic() - begun
    finally:
        begun = time.monotonic()
        run_stoker(environment, "umount", "--force", str(data), *where)
        unmounted = time.monotonic() - begun
    shutil.rmtree(folder)
    return mounted, read, unmounted


def _nodes(env: Environment, prefix: str) -> Iterator[Row]:
    """Start a sidecar repeatedly and kill processes of each. Then use a function that needs them."""
    samples: dict[str, list[float]] = defaultdict(list)
    for _ in env.repeat("start: a node's sidecar"):
        for case, seconds in _node(env, prefix):
            samples[case].append(seconds)
    for case, of_all in samples.items():
        yield Row("start", case, STOKER, "s to serve", tuple(of_all))


def _node(env: Environment, prefix: str) -> Iterator[tuple[str, float]]:
    begun = time.monotonic()
    with env.node() as node:
        yield "a sidecar with an empty cache, until its agent has tried what the node can do", time.monotonic() - begun
        volume, root = cold_volume(node, prefix)
        first, second, *_ = paths(_CORPUS)
        seconds = _after_kill(node, ("fetcher",), (root / first).read_bytes)
        yield "fetcher killed, until a cold read is answered", seconds
        seconds = _after_kill(node, _FETCHERS, (root / second).read_bytes)
        yield "fetcher and its zygote killed, until a cold read is answered", seconds
        seconds = _after_kill(node, ("agent",), partial(node.publish, volume))
        yield "agent killed, until a pod has its volume", seconds


def _after_kill(node: Node, names: Sequence[str], serve: Callable[[], object]) -> float:
    """Kill processes of the sidecar. Return the seconds of ``serve``, which waits for their successors."""
    pids = node.sidecar.pids()
    begun = time.monotonic()
    for name in names:
        os.kill(pids[name], signal.SIGKILL)
    serve()
    return time.monotonic() - begun

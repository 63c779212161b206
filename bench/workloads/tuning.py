"""The nine cells of tuning: training, inference and data pipelines by throughput, latency and memory.

Each is measured with the level Basic, with the default, and with its template, from a distant server and without local
files. A copy by s5cmd shows the limit of the machine.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.environment import Environment
from bench.measure import MemoryWatch, drop_page_cache
from bench.node import Node
from bench.objects import paths
from bench.readers import WHOLE_BUFFER, read_epoch
from bench.report import Row
from bench.scale import Corpus
from bench.systems import S5CMD, STOKER, new_mount
from stoker_api.profiles.tuning import NodeTuning
from stoker_tuning.vocabulary import OptimizationLevel

BASIC = "Stoker, Basic"
PROFILE = "P20"
MODEL = "model"
_READERS = 4
_BATCH = 64  # number of files in a first batch
_SHARD_READERS = 2
_BESIDE = "a-beside"  # warmed before the model


@dataclass(frozen=True)
class Figures:
    """The result of one run: its throughput, and the seconds until the first usable data."""

    throughput: float
    seconds: float


@dataclass(frozen=True)
class CellKind:
    """A kind of workload: its template, the units of its figures, and one run."""

    name: str
    template: str
    throughput: str
    latency: str
    run: Callable[[Environment, Node, str, NodeTuning], Figures]

    @property
    def choices(self) -> Mapping[str, NodeTuning]:
        """The node's rules, by the system's name in the tables."""
        return {
            BASIC: NodeTuning(level=OptimizationLevel.BASIC),
            STOKER: NodeTuning(),
            f"{STOKER}, {self.template}": NodeTuning(template=self.template),
        }


def measure(env: Environment) -> Iterator[Row]:
    """Yield the rows of the nine cells, and of a copy by s5cmd of the files that are read."""
    cells = env.scale.cells
    with env.corpus("tuning-images", cells.images) as prefix:
        yield from _cells(env, _TRAINING, prefix)
        yield _copy(env, _TRAINING, prefix, cells.images.files)
    with model_dataset(env) as prefix:
        yield from _cells(env, _INFERENCE, prefix)
        yield _copy(env, _INFERENCE, f"{prefix}/{MODEL}", cells.model.total_bytes / 1e6)
    with env.corpus("tuning-shards", cells.shards) as prefix:
        yield from _cells(env, _PIPELINE, prefix)
        yield _copy(env, _PIPELINE, prefix, cells.shards.total_bytes / 1e6)


@contextmanager
def model_dataset(env: Environment) -> Iterator[str]:
    """Keep a Dataset with a model in the folder MODEL and other files before it. Yield its prefix."""
    cells, prefix = env.scale.cells, "with-model"
    with env.corpus(f"{prefix}/{_BESIDE}", cells.beside), env.corpus(f"{prefix}/{MODEL}", cells.model):
        yield prefix


def _cells(env: Environment, kind: CellKind, prefix: str) -> Iterator[Row]:
    """Measure the three cells of a kind. Each run has a new node, without files from other runs."""
    figures: dict[str, list[Figures]] = {system: [] for system in kind.choices}
    memory: dict[str, list[float]] = {system: [] for system in kind.choices}
    with env.profile(PROFILE) as endpoint:
        for system in env.turns(f"tuning: {kind.name}", kind.choices):
            with env.node(endpoint) as node, MemoryWatch(node.sidecar.pids) as watch:
                drop_page_cache()
                figures[system].append(kind.run(env, node, prefix, kind.choices[system]))
            memory[system].append(watch.peak.total.pss / 1e6)
    for system, runs in figures.items():
        rows = (
            ("throughput", kind.throughput, [run.throughput for run in runs]),
            ("latency", kind.latency, [run.seconds for run in runs]),
            ("memory", "MB PSS", memory[system]),
        )
        for cell, unit, samples in rows:
            yield Row("tuning", f"{kind.name}, {cell}, {PROFILE}", system, unit, tuple(samples), BASIC)


def _train(env: Environment, node: Node, prefix: str, tuning: NodeTuning) -> Figures:
    """Read a first, cold epoch in shuffled order."""
    corpus = env.scale.cells.images
    order = list(paths(corpus))
    random.Random(corpus.files).shuffle(order)
    start = time.monotonic()
    root = new_mount(node, prefix, tuning=tuning)
    read_epoch(root, order[:_BATCH], _READERS, _BATCH * corpus.size)
    first = time.monotonic() - start
    rest = order[_BATCH:]
    return Figures(read_epoch(root, rest, _READERS, len(rest) * corpus.size).rate, first)


def _infer(env: Environment, node: Node, prefix: str, tuning: NodeTuning) -> Figures:
    """Load a model as a server does while the Dataset is warmed up. The model is its last part."""
    corpus = env.scale.cells.model
    start = time.monotonic()
    root = new_mount(node, prefix, eager=True, tuning=tuning) / MODEL
    first = _first_bytes(root, corpus)
    whole = read_epoch(root, list(paths(corpus)), 1, corpus.total_bytes)
    return Figures(whole.mb_rate, first - start)


def _pipe(env: Environment, node: Node, prefix: str, tuning: NodeTuning) -> Figures:
    """Read shards in order, each once."""
    corpus = env.scale.cells.shards
    start = time.monotonic()
    root = new_mount(node, prefix, tuning=tuning)
    first = _first_bytes(root, corpus)
    return Figures(read_epoch(root, list(paths(corpus)), _SHARD_READERS, corpus.total_bytes).mb_rate, first - start)


def _first_bytes(root: Path, corpus: Corpus) -> float:
    """Read the first bytes of the first file. Return the time of their arrival."""
    with (root / next(iter(paths(corpus)))).open("rb", buffering=0) as file:
        file.read(WHOLE_BUFFER)
    return time.monotonic()


def _copy(env: Environment, kind: CellKind, prefix: str, amount: float) -> Row:
    """Measure a copy alone, the download limit. ``amount`` is its size in the units of the kind's throughput."""
    with env.profile(PROFILE) as endpoint:
        copies = [env.copied(prefix, endpoint)[0] for _ in env.repeat(f"tuning: copy by s5cmd, {kind.name}")]
    rates = tuple(amount / copy.seconds for copy in copies)
    case = f"{kind.name}, throughput, {PROFILE}"
    return Row("tuning", case, S5CMD, kind.throughput, rates, BASIC, "a copy, nothing is read")


_FIRST_BATCH = "s from the plan to the first batch"
_FIRST_BYTES = "s from the plan to the first MiB"
_TRAINING = CellKind("training", "production_training", "files/s", _FIRST_BATCH, _train)
_INFERENCE = CellKind("inference", "low_latency_inference", "MB/s", _FIRST_BYTES, _infer)
_PIPELINE = CellKind("data pipeline", "data_pipeline", "MB/s", _FIRST_BYTES, _pipe)

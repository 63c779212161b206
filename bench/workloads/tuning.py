"""The nine cells of tuning: training, inference and data pipelines by throughput, latency and memory.

Each is measured without rules, with the built-in ones, and with its template, from a distant server and without local
files.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.environment import Environment
from bench.measure import MemoryWatch, drop_page_cache
from bench.node import Node
from bench.objects import paths
from bench.readers import WHOLE_BUFFER, read_epoch
from bench.report import Row
from bench.scale import Corpus
from bench.systems import S5CMD, STOKER
from stoker_api.profiles.tuning import NodeTuning

RULES_OFF = "Stoker, rules off"
_PROFILE = "P20"
_READERS = 4
_BATCH = 64  # number of files in a first batch
_SHARD_READERS = 2
_BESIDE, _MODEL = "a-beside", "model"


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
        template = f"Stoker, {self.template}"
        return {
            RULES_OFF: NodeTuning(enabled=False),
            STOKER: NodeTuning(),
            template: NodeTuning(template=self.template),
        }


def measure(env: Environment) -> Iterator[Row]:
    """Yield the rows of the nine cells, and of a copy of the model by s5cmd."""
    cells = env.scale.cells
    with env.corpus("tuning-images", cells.images) as prefix:
        yield from _cells(env, _TRAINING, prefix)
    with env.corpus(f"tuning-model/{_BESIDE}", cells.beside), env.corpus(f"tuning-model/{_MODEL}", cells.model):
        yield from _cells(env, _INFERENCE, "tuning-model")
        yield _copy(env, f"tuning-model/{_MODEL}")
    with env.corpus("tuning-shards", cells.shards) as prefix:
        yield from _cells(env, _PIPELINE, prefix)


def _cells(env: Environment, kind: CellKind, prefix: str) -> Iterator[Row]:
    """Measure the three cells of a kind. Each run has a new node, without files from other runs."""
    figures: dict[str, list[Figures]] = {system: [] for system in kind.choices}
    memory: dict[str, list[float]] = {system: [] for system in kind.choices}
    with env.profile(_PROFILE) as endpoint:
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
            yield Row("tuning", f"{kind.name}, {cell}, {_PROFILE}", system, unit, tuple(samples), RULES_OFF)


def _train(env: Environment, node: Node, prefix: str, tuning: NodeTuning) -> Figures:
    """Read a first, cold epoch in shuffled order."""
    corpus = env.scale.cells.images
    order = list(paths(corpus))
    random.Random(corpus.files).shuffle(order)
    start = time.monotonic()
    root = _mounted(node, prefix, tuning)
    read_epoch(root, order[:_BATCH], _READERS, _BATCH * corpus.size)
    first = time.monotonic() - start
    rest = order[_BATCH:]
    return Figures(read_epoch(root, rest, _READERS, len(rest) * corpus.size).rate, first)


def _infer(env: Environment, node: Node, prefix: str, tuning: NodeTuning) -> Figures:
    """Load a model as a server does while the Dataset is warmed up. The model is its last part."""
    corpus = env.scale.cells.model
    start = time.monotonic()
    root = _mounted(node, prefix, tuning, eager=True) / _MODEL
    first = _first_bytes(root, corpus)
    whole = read_epoch(root, list(paths(corpus)), 1, corpus.total_bytes)
    return Figures(whole.mb_rate, first - start)


def _pipe(env: Environment, node: Node, prefix: str, tuning: NodeTuning) -> Figures:
    """Read shards in order, each once."""
    corpus = env.scale.cells.shards
    start = time.monotonic()
    root = _mounted(node, prefix, tuning)
    first = _first_bytes(root, corpus)
    return Figures(read_epoch(root, list(paths(corpus)), _SHARD_READERS, corpus.total_bytes).mb_rate, first - start)


def _mounted(node: Node, prefix: str, tuning: NodeTuning, *, eager: bool = False) -> Path:
    volume = node.list_source(prefix)
    node.offer(volume, eager=eager, tuning=tuning)
    return node.publish(volume)


def _first_bytes(root: Path, corpus: Corpus) -> float:
    """Read the first bytes of the first file. Return the time of their arrival."""
    with (root / next(iter(paths(corpus)))).open("rb", buffering=0) as file:
        file.read(WHOLE_BUFFER)
    return time.monotonic()


def _copy(env: Environment, prefix: str) -> Row:
    """Measure a copy of the model alone: the download limit."""
    with env.profile(_PROFILE) as endpoint:
        copies = [env.copied(prefix, endpoint)[0] for _ in env.repeat("tuning: copy of the model by s5cmd")]
    rates = tuple(env.scale.cells.model.total_bytes / 1e6 / copy.seconds for copy in copies)
    case = f"{_INFERENCE.name}, throughput, {_PROFILE}"
    return Row("tuning", case, S5CMD, _INFERENCE.throughput, rates, RULES_OFF, "a copy, nothing is read")


_FIRST_BATCH = "s from the plan to the first batch"
_FIRST_BYTES = "s from the plan to the first MiB"
_TRAINING = CellKind("training", "production_training", "files/s", _FIRST_BATCH, _train)
_INFERENCE = CellKind("inference", "low_latency_inference", "MB/s", _FIRST_BYTES, _infer)
_PIPELINE = CellKind("data pipeline", "data_pipeline", "MB/s", _FIRST_BYTES, _pipe)

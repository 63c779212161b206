"""What `stoker profile` says of a training: whether its parts are the epoch, and what is predicted comes true."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.environment import Environment
from bench.profiling import Trainer, profiled, trained
from bench.report import Row
from bench.server import BUCKET
from bench.systems import STOKER
from stoker_api.sampling import SampleFilesSpec, Sampling
from stoker_cli.profiled_mounts import OwnMount, own_mount
from stoker_orders.sampling_plan import SampleLayout

PREDICTED = "predicted"
OFF, SUM_OFF = "% off what is measured", "% off the epoch"
_PROFILE, _SEED = "P20", 7
_WARM, _ORDER, _MORE = "data warm", "cold, order known", "warm, 4 workers"
_HALF_COLD, _HALF_WARM = "quality ratio 0.5, cold", "quality ratio 0.5, warm"
_TRAINERS = (
    Trainer("waits for its data", decode=0.001),
    Trainer("waits for decoding that sleeps", decode=0.010),
    Trainer("waits for decoding that computes", decode=0.008, spin=True),
)


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for the sum of the parts, and for each prediction beside what is then measured."""
    with env.corpus("profiler", env.scale.profiled) as prefix, env.profile(_PROFILE) as endpoint:
        for trainer in _TRAINERS:
            yield from _of(env, trainer, prefix, endpoint)


def _of(env: Environment, trainer: Trainer, prefix: str, endpoint: str) -> Iterator[Row]:
    off: list[float] = []
    figures: dict[str, tuple[list[float], list[float]]] = {}
    for _ in env.repeat(f"profiler: {trainer.name}"):
        found = profiled(_url(prefix), trainer, _variables(env, endpoint), env.scratch)
        off.append(100 * abs(found["sumError"]))
        predicted = _predicted(found)
        for name, run in _MEASURED.items():
            if name in predicted:
                env.say(f"profiler: {trainer.name}, {name}")
                samples = figures.setdefault(name, ([], []))
                samples[0].append(predicted[name])
                samples[1].append(run(env, trainer, prefix, endpoint))
    yield Row("profiler", trainer.name, STOKER, SUM_OFF, tuple(off), note="the sum of the parts")
    for name, (foreseen, measured) in figures.items():
        case = f"{trainer.name}: {name}"
        yield Row("profiler", case, PREDICTED, "s", tuple(foreseen), STOKER)
        yield Row("profiler", case, STOKER, "s", tuple(measured), STOKER)
        shares = [100 * abs(one / other - 1) for one, other in zip(foreseen, measured, strict=True)]
        yield Row("profiler", case, PREDICTED, OFF, tuple(shares))


def _predicted(found: dict[str, Any]) -> dict[str, float]:
    told = {one["change"]: float(one["seconds"]) for one in found["predictions"]}
    half = next((point for point in found["quality"] if point["ratio"] == 0.5), None)
    if half is not None:
        told |= {_HALF_COLD: half["seconds"][0], _HALF_WARM: half["warmSeconds"]}
    return told


@contextmanager
def _mount(env: Environment, prefix: str, endpoint: str) -> Iterator[OwnMount]:
    """Mount the data by `stoker mount`, with a cache of its own."""
    with patch.dict(os.environ, _variables(env, endpoint)), own_mount(_url(prefix), [], env.scratch) as mount:
        yield mount


def _variables(env: Environment, endpoint: str) -> dict[str, str]:
    return {**env.server.client_variables, "AWS_ENDPOINT_URL": endpoint}


def _url(prefix: str) -> str:
    return f"s3://{BUCKET}/{prefix}/"


def _epoch(trainer: Trainer, root: Path, scratch: Path) -> float:
    return trained(trainer, root, scratch).seconds


def _warm(env: Environment, trainer: Trainer, prefix: str, endpoint: str) -> float:
    with _mount(env, prefix, endpoint) as mount:
        return _epoch(trainer, mount.warm().folder, env.scratch)


def _cold(env: Environment, trainer: Trainer, prefix: str, endpoint: str) -> float:
    with _mount(env, prefix, endpoint) as mount:
        return _epoch(trainer, mount.cold(), env.scratch)


def _order_known(env: Environment, trainer: Trainer, prefix: str, endpoint: str) -> float:
    files = SampleFilesSpec(layout=SampleLayout.SHARDS)  # all files, by name
    said = Sampling(seed=_SEED, batch=trainer.batch, loaders=trainer.workers, epochs=1, ranks=1, files=files)
    with env.node(endpoint) as node:  # as in a cluster; a mount of one machine is told it by --sampling
        volume = node.list_source(prefix)
        node.offer(volume)
        return _epoch(trainer, node.publish(volume, said.text()), env.scratch)


_Run = Callable[[Environment, Trainer, str, str], float]


def _with(run: _Run, **changes: Any) -> _Run:
    return lambda env, trainer, prefix, endpoint: run(env, replace(trainer, **changes), prefix, endpoint)


_MEASURED: dict[str, _Run] = {
    _WARM: _warm,
    _ORDER: _order_known,
    _MORE: _with(_warm, workers=4),
    _HALF_COLD: _with(_cold, ratio=0.5),
    _HALF_WARM: _with(_warm, ratio=0.5),
}

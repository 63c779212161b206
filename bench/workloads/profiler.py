"""Checks of `stoker profile` on a training: its parts add up to the epoch, and its predictions match measurements."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.environment import Environment
from bench.profiling import Trainer, profiled, trained
from bench.report import Row
from bench.sampled import sampling
from bench.server import BUCKET
from bench.systems import STOKER
from stoker_cli.profile.profiled_mounts import temporary_mount

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
    """Yield rows for the sum of the parts, and for each prediction with its measurement."""
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


def _variables(env: Environment, endpoint: str) -> dict[str, str]:
    return {**env.server.client_variables, "AWS_ENDPOINT_URL": endpoint}


def _url(prefix: str) -> str:
    return f"s3://{BUCKET}/{prefix}/"


def _epoch(trainer: Trainer, root: Path, scratch: Path) -> float:
    return trained(trainer, root, scratch).seconds


def _on_mount(env: Environment, trainer: Trainer, prefix: str, endpoint: str, *, warm: bool) -> float:
    """Run it on a `stoker mount` with a separate cache."""
    with patch.dict(os.environ, _variables(env, endpoint)), temporary_mount(_url(prefix), [], env.scratch) as mount:
        return _epoch(trainer, mount.warm().folder if warm else mount.cold(), env.scratch)


def _order_known(env: Environment, trainer: Trainer, prefix: str, endpoint: str) -> float:
    said = sampling(_SEED, trainer.workers, batch=trainer.batch, epochs=1)
    with env.node(endpoint) as node:  # as in a cluster; a local mount gets it from --sampling
        volume = node.list_source(prefix)
        node.offer(volume)
        return _epoch(trainer, node.publish(volume, said), env.scratch)


_warm, _cold = partial(_on_mount, warm=True), partial(_on_mount, warm=False)
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

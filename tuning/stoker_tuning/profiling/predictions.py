"""Predicts an epoch's time with warm data, a known order, or more workers, from the parts of its time. Pure."""

from dataclasses import dataclass

_ALIKE = 0.02  # relative difference below which two times count as equal: two equal runs differ by more


@dataclass(frozen=True, slots=True)
class InputPipeline:
    """The inputs of predictions; seconds are of one epoch.

    ``compute``: of the accelerator alone. ``warm``: with all data at hand. ``cold``: with no data on the node; None:
    unknown. ``first``: until the first batch of a warm epoch. ``items``: None: not counted. ``transfer``: of all bytes
    at the source's full bandwidth; ``cpu_seconds`` of all processes; ``cores`` for them. None: unknown. ``workers``: of
    its loader; None: unknown, so predictions use multiples. ``scalable``: False: all of these seconds include start-up,
    which workers do not shorten.
    """

    compute: float
    warm: float
    cold: float | None = None
    first: float = 0.0
    items: float | None = None
    transfer: float | None = None
    cpu_seconds: float | None = None
    cores: int | None = None
    workers: int | None = None
    scalable: bool = True


@dataclass(frozen=True, slots=True)
class PredictedEpoch:
    """The predicted time of an epoch: ``change`` names the difference, ``how`` the way to get it.

    ``bound``: the resource that limits it then: compute, preparation, bandwidth, cores. ``items_per_second``: None: not
    counted.
    """

    change: str
    seconds: float
    items_per_second: float | None
    bound: str
    how: str


def predictions(now: InputPipeline, more: tuple[float, ...] = (1.5, 2.0)) -> tuple[PredictedEpoch, ...]:
    """Return all possible predictions. ``more``: factors for the number of workers."""
    found = [_warm(now)]
    if now.cold is not None and now.transfer is not None:
        found.append(_order_known(now, now.transfer))
    if now.scalable and now.warm > now.compute:
        found += [_more_workers(now, factor) for factor in more]
    found.append(_made(now, "no stall at all", {"compute": now.compute}, "the limit: nothing but compute is left"))
    return tuple(found)


def seconds_with_workers(now: InputPipeline, factor: float) -> dict[str, float]:
    """Return the seconds of a warm epoch by each bound, with ``factor`` times the workers; the greatest counts.

    During a stall all workers of a loader work all the time, from the start. So the time falls by the factor. It is
    never below computing, which begins with the first batch of one worker, or below the CPU time on all cores. There is
    no prediction for cold epochs: a mount prefetches, regardless of the number of readers.
    """
    bounds = {"compute": now.first + now.compute, "preparation": now.warm / factor}
    if now.cpu_seconds is not None and now.cores:
        bounds["cores"] = now.cpu_seconds / now.cores
    return {name: min(seconds, now.warm) for name, seconds in bounds.items()}


def _warm(now: InputPipeline) -> PredictedEpoch:
    how = "stoker warm DATASET, stoker mount --warm, or a second epoch"
    return _made(now, "data warm", _at_hand(now), how)


def _at_hand(now: InputPipeline) -> dict[str, float]:
    """Return the bounds of an epoch with all data at hand. The wait for the first batch counts as no stall."""
    computing = min(now.first + now.compute, now.warm)
    if now.warm <= computing * (1 + _ALIKE):
        return {"compute": now.warm}
    return {"compute": computing, "preparation": now.warm}


def _order_known(now: InputPipeline, transfer: float) -> PredictedEpoch:
    """Return the prediction for prefetch in the right order: a fetch during computing causes no wait."""
    bounds = {**_at_hand(now), "bandwidth": transfer}
    return _made(now, "cold, order known", bounds, "spec.sampling, or the annotation stoker.dev/sampling")


def _more_workers(now: InputPipeline, factor: float) -> PredictedEpoch:
    count = f"{factor:g} times the workers" if now.workers is None else f"{round(now.workers * factor)} workers"
    bounds = seconds_with_workers(now, factor)
    return _made(now, f"warm, {count}", bounds, "more workers of the loader, if it has cores for them")


def _made(now: InputPipeline, change: str, bounds: dict[str, float], how: str) -> PredictedEpoch:
    # Of equal bounds the first is named: it remains in the end.
    bound = max(bounds, key=lambda name: bounds[name])
    seconds = bounds[bound]
    rate = now.items / seconds if now.items is not None and seconds > 0 else None
    return PredictedEpoch(change, seconds, rate, bound, how)

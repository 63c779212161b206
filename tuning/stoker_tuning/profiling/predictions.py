"""The parts of an epoch's time -> how long it would take if data were warm, its order known, or workers more. Pure."""

from dataclasses import dataclass

_ALIKE = 0.02  # seconds that differ by less are the same: two runs of the same differ by more


@dataclass(frozen=True, slots=True)
class InputPipeline:
    """What predictions follow from; seconds are of one epoch.

    ``compute``: of the accelerator alone. ``warm``: with everything at hand. ``cold``: with nothing here; None: not
    known. ``first``: until the first batch of a warm one. ``items``: None: nobody counts them. ``transfer``: of all
    bytes at the source's full bandwidth; ``cpu_seconds`` of all processes; ``cores`` for them. None: not known.
    ``workers``: of its loader; None: not known, so that they are predicted in multiples. ``scalable``: False: start-up
    is in all of these seconds, which no worker shortens.
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
    """How long an epoch would take: ``change`` names what is different, ``how`` what brings it about.

    ``bound``: what it waits for then: compute, preparation, bandwidth, cores.
    ``items_per_second``: None: not counted.
    """

    change: str
    seconds: float
    items_per_second: float | None
    bound: str
    how: str


def predictions(now: InputPipeline, more: tuple[float, ...] = (1.5, 2.0)) -> tuple[PredictedEpoch, ...]:
    """Return all that can be predicted. ``more``: by which factors workers may be more."""
    found = [_warm(now)]
    if now.cold is not None and now.transfer is not None:
        found.append(_order_known(now, now.transfer))
    if now.scalable and now.warm > now.compute:
        found += [_more_workers(now, factor) for factor in more]
    found.append(_made(now, "no stall at all", {"compute": now.compute}, "the limit: nothing but compute is left"))
    return tuple(found)


def seconds_with_workers(now: InputPipeline, factor: float) -> dict[str, float]:
    """Return the seconds of a warm epoch by each bound, with so many times the workers; the greatest counts.

    A loader that somebody waits for works all the time, all of its workers from the start on, so it is done in as much
    less time. No loader is faster than computing, which begins when one worker has made the first batch, or than its
    CPU time on all cores. Of cold epochs nothing is said: a mount fetches ahead, whoever asks for how much.
    """
    bounds = {"compute": now.first + now.compute, "preparation": now.warm / factor}
    if now.cpu_seconds is not None and now.cores:
        bounds["cores"] = now.cpu_seconds / now.cores
    return {name: min(seconds, now.warm) for name, seconds in bounds.items()}


def _warm(now: InputPipeline) -> PredictedEpoch:
    how = "stoker warm DATASET, stoker mount --warm, or a second epoch"
    return _made(now, "data warm", _at_hand(now), how)


def _at_hand(now: InputPipeline) -> dict[str, float]:
    """Return the bounds of an epoch with everything at hand: no stall but that for the first batch is none."""
    computing = min(now.first + now.compute, now.warm)
    if now.warm <= computing * (1 + _ALIKE):
        return {"compute": now.warm}
    return {"compute": computing, "preparation": now.warm}


def _order_known(now: InputPipeline, transfer: float) -> PredictedEpoch:
    """Return what reading ahead in the right order comes to: what comes while it computes is waited for no more."""
    bounds = {**_at_hand(now), "bandwidth": transfer}
    return _made(now, "cold, order known", bounds, "spec.sampling, or the annotation stoker.dev/sampling")


def _more_workers(now: InputPipeline, factor: float) -> PredictedEpoch:
    count = f"{factor:g} times the workers" if now.workers is None else f"{round(now.workers * factor)} workers"
    bounds = seconds_with_workers(now, factor)
    return _made(now, f"warm, {count}", bounds, "more workers of the loader, if it has cores for them")


def _made(now: InputPipeline, change: str, bounds: dict[str, float], how: str) -> PredictedEpoch:
    # Of bounds that are alike the first is named, which is what would be left in the end.
    bound = max(bounds, key=lambda name: bounds[name])
    seconds = bounds[bound]
    rate = now.items / seconds if now.items is not None and seconds > 0 else None
    return PredictedEpoch(change, seconds, rate, bound, how)

"""The workloads: one module for each, which measures and yields rows."""

from collections.abc import Callable, Iterator, Mapping

from bench.environment import Environment
from bench.report import Row
from bench.workloads import (
    adaptive,
    article,
    epochs,
    firstbatch,
    gpus,
    idle,
    large,
    memory,
    metadata,
    observer,
    orders,
    pages,
    partial,
    preads,
    profiler,
    quality,
    second,
    sharing,
    start,
    storm,
    switch,
    tuning,
    warmup,
)

WORKLOADS: Mapping[str, Callable[[Environment], Iterator[Row]]] = {
    "B1": epochs.measure,
    "B2": large.measure,
    "B3": partial.measure,
    "B4": preads.measure,
    "B5": metadata.measure,
    "B6": warmup.measure,
    "B7": sharing.measure,
    "B8": firstbatch.measure,
    "B9": orders.measure,
    "B10": switch.measure,
    "second": second.measure,
    "pages": pages.measure,
    "scarce": pages.measure_scarce,
    "storm": storm.measure,
    "idle": idle.measure,
    "observer": observer.measure,
    "memory": memory.measure,
    "tuning": tuning.measure,
    "adaptive": adaptive.measure,
    "gpus": gpus.measure,
    "article": article.measure,
    "profiler": profiler.measure,
    "quality": quality.measure,
    "start": start.measure,
}

"""The workloads: one module for each, which measures and yields rows."""

from collections.abc import Callable, Iterator, Mapping

from bench.environment import Environment
from bench.report import Row
from bench.workloads import (
    adaptive,
    epochs,
    firstbatch,
    gpus,
    idle,
    large,
    memory,
    metadata,
    observer,
    orders,
    partial,
    preads,
    quota,
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
    "quota": quota.measure,
    "B10": switch.measure,
    "second": second.measure,
    "storm": storm.measure,
    "idle": idle.measure,
    "observer": observer.measure,
    "memory": memory.measure,
    "tuning": tuning.measure,
    "adaptive": adaptive.measure,
    "gpus": gpus.measure,
    "start": start.measure,
}

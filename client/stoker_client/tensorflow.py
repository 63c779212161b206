"""TensorFlow support: an epoch of indices as a tf.data.Dataset, to map reads over."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any


def index_dataset(sampler: Iterable[int]) -> Any:
    """Return a ``tf.data.Dataset`` of int64 indices in the sampler's order. Each iteration is one of the sampler.

    Example: ``index_dataset(sampler).map(read, num_parallel_calls=8, deterministic=True).batch(256).prefetch(2)``.
    """
    tensorflow = import_module("tensorflow")
    signature = tensorflow.TensorSpec(shape=(), dtype=tensorflow.int64)
    return tensorflow.data.Dataset.from_generator(lambda: iter(sampler), output_signature=signature)

"""Keras on JAX with stoker-client's callback, in an order of one of its samplers.

Its last line is JSON: the samples of each epoch in training order, and the reported wait of each batch in seconds.
"""

import json
import os
import time
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
from kept_waits import KeptWaits

import stoker_client.keras
from stoker_client import GlobalShuffleSampler, batches

_SAMPLES, _BATCH, _EPOCHS, _SEED = 40, 8, 2, 11
_FETCH = 0.05  # seconds until a batch arrives; a step takes almost no time


def main() -> None:
    """Train for two epochs, with a validation after each."""
    seen: list[list[int]] = []
    sampler = GlobalShuffleSampler(_SAMPLES, seed=_SEED, rank=0, world_size=1)

    def loaded() -> Any:
        for epoch in range(_EPOCHS):
            sampler.set_epoch(epoch)
            seen.append([])
            for indices in batches(sampler, _BATCH):
                time.sleep(_FETCH)
                seen[-1] += indices
                numbers = np.array(indices, dtype="float32").reshape(-1, 1) / _SAMPLES
                yield numbers, numbers

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(0.25), loss="mse")
    held = np.zeros((_BATCH, 1), dtype="float32")
    report = KeptWaits(framework="keras")
    callbacks = [stoker_client.keras.callback(report)]
    steps = _SAMPLES // _BATCH
    model.fit(
        loaded(),
        callbacks=callbacks,
        epochs=_EPOCHS,
        steps_per_epoch=steps,
        validation_data=(held, held),
        verbose=0,
    )
    print(json.dumps([seen, report.waits]))


if __name__ == "__main__":
    main()

"""A callback for Keras, 2 or 3: ``model.fit(..., callbacks=[stoker_client.keras.callback()])``."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from stoker_client.guard import found, quiet
from stoker_client.training_report import BatchMeter, TrainingReport

# Backends that call on_train_batch_begin when the batch is there. TensorFlow's never did, and with Keras 3.15 JAX's
# hands an iterator to its step (tests/integration/clients).
_WITH_THE_BATCH = ("torch",)


def callback(report: TrainingReport | None = None, *, waits: bool | None = None) -> Any:
    """Return a callback that reports ``fit``. Raises ImportError.

    ``waits``: whether the time between batches is that for data; left out, by the backend. With TensorFlow and JAX the
    batch is fetched within the step, where no callback sees it: the node does.
    """
    keras = sys.modules.get("keras")
    if keras is None:
        keras = import_module("tensorflow").keras if "tensorflow" in sys.modules else import_module("keras")
    if waits is None:
        backend = getattr(found(keras, "backend"), "backend", None)
        waits = backend is not None and backend() in _WITH_THE_BATCH
    return type("StokerCallback", (KerasHooks, keras.callbacks.Callback), {})(report, waits)


class KerasHooks:
    """The hooks."""

    def __init__(self, report: TrainingReport | None = None, waits: bool = False) -> None:
        super().__init__()
        self._report = TrainingReport(framework="keras") if report is None else report
        self._meter = BatchMeter(self._report)
        self._waits = waits

    @quiet
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Say the epoch; its first batch is waited for from here on."""
        self._report.say(split="train", epoch=epoch, epochs=found(self, "params", "epochs"))
        self._meter.restart()

    @quiet
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Note that a batch is there."""
        if self._waits:
            self._meter.began()

    @quiet
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Say the batch."""
        rate = found(self, "model", "optimizer", "learning_rate")
        loss = found(logs or {}, "loss")
        self._meter.ended(split="train", batch=batch, step=self._report.next_step(), loss=loss, learning_rate=rate)

    @quiet
    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Say that it validates."""
        self._report.say(split="validation", batch=batch)

    @quiet
    def on_train_end(self, logs: Any = None) -> None:
        """Say the last word."""
        self._report.flush()

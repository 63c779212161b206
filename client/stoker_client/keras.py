"""A callback for Keras, 2 or 3: ``model.fit(..., callbacks=[stoker_client.keras.callback()])``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from stoker_client.internal.guard import found, quiet
from stoker_client.training_report import BatchMeter, TrainingReport

# Backends that call on_train_batch_begin after the batch has arrived. TensorFlow does not, and since Keras 3.15 JAX
# passes an iterator to its step (tests/integration/clients).
_WITH_THE_BATCH = ("torch",)


def callback(
    report: TrainingReport | None = None,
    *,
    waits: bool | None = None,
    sampler: Any = None,
    batch_size: int = 1,
    files: Mapping[str, Any] | None = None,
    dataset: str = "",
) -> Any:
    """Return a callback that reports ``fit``. Raises ImportError.

    ``waits`` says if the time between batches is a wait for data. Default: depends on the backend. TensorFlow and JAX
    fetch the batch within the step, where only the node can measure it. ``sampler`` is the order that ``fit`` reads in.
    The callback sets it to each epoch, raises its errors, and reports its order with ``batch_size``, ``files`` and
    ``dataset`` as in ``TrainingReport.order``.
    """
    keras = sys.modules.get("keras")
    if keras is None:
        keras = import_module("tensorflow").keras if "tensorflow" in sys.modules else import_module("keras")
    if waits is None:
        backend = getattr(found(keras, "backend"), "backend", None)
        waits = backend is not None and backend() in _WITH_THE_BATCH
    order = {"sampler": sampler, "batch_size": batch_size, "files": files, "dataset": dataset}
    return type("StokerCallback", (KerasHooks, keras.callbacks.Callback), {})(report, waits, order)


class KerasHooks:
    """The hooks."""

    def __init__(
        self, report: TrainingReport | None = None, waits: bool = False, order: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self._order = {} if order is None else order
        self._report = TrainingReport(framework="keras") if report is None else report
        self._meter = BatchMeter(self._report)
        self._waits = waits

    def on_epoch_begin(self, epoch: int | None = None, logs: Any = None, *_: Any) -> None:
        """Set the sampler to the epoch, report both, and start the wait for the first batch."""
        if self._order.get("sampler") is not None and epoch is not None:
            # Raises errors: with an unset sampler, all epochs would be the first.
            self._order["sampler"].set_epoch(epoch)
            self._report.order(**self._order)
        self._say_epoch(epoch)

    @quiet
    def _say_epoch(self, epoch: int | None) -> None:
        self._report.say(split="train", epoch=epoch, epochs=found(self, "params", "epochs"))
        self._meter.restart()

    @quiet
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Record that a batch has arrived."""
        if self._waits:
            self._meter.began()

    @quiet
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Report the batch."""
        rate = found(self, "model", "optimizer", "learning_rate")
        loss = found(logs or {}, "loss")
        self._meter.ended(split="train", batch=batch, step=self._report.next_step(), loss=loss, learning_rate=rate)

    @quiet
    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Report that Keras validates."""
        self._report.say(split="validation", batch=batch)

    @quiet
    def on_train_end(self, logs: Any = None) -> None:
        """Send the last report."""
        self._report.flush()

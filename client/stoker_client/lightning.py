"""A callback for Lightning under either package name: ``Trainer(callbacks=[stoker_client.lightning.callback()])``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from stoker_client.internal.guard import found, quiet
from stoker_client.training_report import BatchMeter, TrainingReport

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def callback(report: TrainingReport | None = None, *, files: Mapping[str, Any] | None = None, dataset: str = "") -> Any:
    """Return a callback that reports a Trainer's epochs, batches, loss, learning rate and waits. Raises ImportError.

    ``files`` and ``dataset`` as in ``TrainingReport.order``.
    """
    names = [name for name in _PACKAGES if name in sys.modules] or _PACKAGES
    for name in names:
        try:
            base = import_module(name).Callback
        except ImportError:
            continue
        return type("StokerCallback", (LightningHooks, base), {})(report, files, dataset)
    raise ImportError(f"Lightning is not installed: neither {' nor '.join(_PACKAGES)} can be imported")


class LightningHooks:
    """The hooks. Lightning calls one when a batch arrives and one after its step."""

    def __init__(
        self, report: TrainingReport | None = None, files: Mapping[str, Any] | None = None, dataset: str = ""
    ) -> None:
        super().__init__()
        self._report = report
        self._files, self._dataset = files, dataset
        self._meter: BatchMeter | None = None

    @quiet
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start, with the rank from Lightning."""
        if self._report is None:
            place = {"rank": found(trainer, "global_rank"), "world_size": found(trainer, "world_size")}
            self._report = TrainingReport(framework="lightning", **place)
        self._meter = BatchMeter(self._report)

    @quiet
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Report the epoch, and start the wait for its first batch."""
        most = found(trainer, "max_epochs") or -1
        self._say(split="train", epoch=found(trainer, "current_epoch"), epochs=most if most > 0 else None)
        if self._report is not None:
            self._report.order_of(found(trainer, "train_dataloader"), files=self._files, dataset=self._dataset)
        if self._meter is not None:
            self._meter.restart()

    @quiet
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Record that a batch has arrived."""
        if self._meter is not None:
            self._meter.began()

    @quiet
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Report the batch."""
        if self._meter is None:
            return
        optimizers = found(trainer, "optimizers") or [None]
        groups = found(optimizers[0], "param_groups") or [{}]
        self._meter.ended(
            split="train",
            batch=batch_idx,
            batch_size=found(trainer, "train_dataloader", "batch_size"),
            step=found(trainer, "global_step"),
            loss=outputs.get("loss") if isinstance(outputs, dict) else outputs,
            learning_rate=groups[0].get("lr"),
        )

    @quiet
    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        """Report that Lightning validates, except during its sanity check."""
        if not found(trainer, "sanity_checking"):
            self._say(split="validation", batch=batch_idx)

    @quiet
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Start the wait for training batches again."""
        if self._meter is not None:
            self._meter.restart()

    @quiet
    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Report that a checkpoint is being written."""
        self._say(phase="SaveCheckpoint")

    @quiet
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Send the last report."""
        if self._report is not None:
            self._report.flush()

    def _say(self, **said: Any) -> None:
        if self._report is not None:
            self._report.say(**said)

"""Hugging Face support: datasets in a sampler's order, and a callback for the Trainer of transformers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from stoker_client.internal.guard import found, quiet
from stoker_client.training_report import BatchMeter, TrainingReport


def in_order(dataset: Any, sampler: Iterable[int]) -> Any:
    """Return a ``datasets.Dataset`` with rows in the order of the sampler's epoch. Call it for each epoch."""
    return dataset.select(list(sampler))


def shards_in_order(dataset: Any, sampler: Iterable[int]) -> Any:
    """Return a ``datasets.IterableDataset`` of one epoch, from a sampler of its shards (``dataset.num_shards``).

    Call it for each epoch. ``dataset.shuffle(buffer_size=...)`` on the result mixes rows of neighboring shards.
    """
    shards = [dataset.shard(num_shards=dataset.num_shards, index=index) for index in sampler]
    return import_module("datasets").concatenate_datasets(shards)


def callback(report: TrainingReport | None = None, *, files: Mapping[str, Any] | None = None, dataset: str = "") -> Any:
    """Return a callback for ``transformers.Trainer(callbacks=[...])``. Raises ImportError.

    ``files`` and ``dataset`` as in ``TrainingReport.order``.
    """
    base = import_module("transformers").TrainerCallback
    return type("StokerCallback", (TrainerHooks, base), {})(report, files, dataset)


class TrainerHooks:
    """The hooks. The Trainer fetches batches between the end of a step and the start of the next one."""

    def __init__(
        self, report: TrainingReport | None = None, files: Mapping[str, Any] | None = None, dataset: str = ""
    ) -> None:
        super().__init__()
        self._report = TrainingReport(framework="transformers") if report is None else report
        self._files, self._dataset = files, dataset
        self._meter = BatchMeter(self._report)
        self._batch = 0

    @quiet
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Report the epoch, and start the wait for its first batch."""
        self._batch = 0
        epoch, epochs = int(found(state, "epoch") or 0), found(state, "num_train_epochs")
        self._report.say(split="train", epoch=epoch, epochs=None if epochs is None else int(epochs))
        # The Trainer sets its loader to the epoch: transformers 4 before this, 5 after it.
        self._report.order_of(given.get("train_dataloader"), files=self._files, dataset=self._dataset, epoch=epoch)
        self._meter.restart()

    @quiet
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Record that the batches of a step have arrived."""
        self._meter.began()

    @quiet
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Say the step."""
        size = (found(args, "per_device_train_batch_size") or 0) * (found(args, "gradient_accumulation_steps") or 1)
        said = {"batch": self._batch, "batch_size": size or None, "step": found(state, "global_step")}
        self._meter.ended(split="train", **said)
        self._batch += 1

    @quiet
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Report loss and learning rate if the log has them."""
        self._report.say(loss=found(logs or {}, "loss"), learning_rate=found(logs or {}, "learning_rate"))

    @quiet
    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report that the Trainer validates."""
        self._report.say(split="validation")

    @quiet
    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the wait for training batches again."""
        self._meter.restart()

    @quiet
    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report the saved checkpoint."""
        self._report.say(saved=f"{args.output_dir}/checkpoint-{state.global_step}", kind="Checkpoint")
        self._meter.restart()

    @quiet
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Send the last report."""
        self._report.flush()

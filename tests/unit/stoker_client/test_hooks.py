"""The hooks of each framework accept the calls that its documentation describes.

The objects here have only the documented attributes. tests/integration/clients runs the real Trainers of transformers
and Lightning, and Keras on JAX. TensorFlow is too large for each run, so these tests use its documented signatures.
"""

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stoker_client import GlobalShuffleSampler, keras, lightning, tensorflow
from stoker_client.huggingface import TrainerHooks
from stoker_client.keras import KerasHooks
from stoker_client.lightning import LightningHooks


class Recorder:
    """A report that records its lines, on a fake clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.said: list[dict[str, Any]] = []
        self.steps = 0
        self.flushed = 0

    def clock(self) -> float:
        return self.now

    def say(self, **said: Any) -> None:
        self.said.append({name: value for name, value in said.items() if value is not None})

    def order(self, sampler: Any, *, batch_size: int, files: Any, dataset: str) -> None:
        self.say(order=(sampler.epoch, batch_size, files, dataset))

    def next_step(self) -> int:
        self.steps += 1
        return self.steps

    def flush(self) -> None:
        self.flushed += 1

    def run(self, *parts: Callable[[], Any] | float) -> None:
        """Run the calls in order. A number advances the clock."""
        for part in parts:
            if callable(part):
                part()
            else:
                self.now += part


@pytest.fixture
def told() -> Any:
    return Recorder()


def test_lightning_says_epoch_batch_loss_rate_and_wait(told: Any) -> None:
    optimizer = SimpleNamespace(param_groups=[{"lr": 0.1}])
    trainer = SimpleNamespace(
        max_epochs=5,
        current_epoch=2,
        global_step=12,
        optimizers=[optimizer],
        train_dataloader=SimpleNamespace(batch_size=8),
    )
    hooks = LightningHooks(told)
    told.run(
        lambda: hooks.on_train_start(trainer, None),
        lambda: hooks.on_train_epoch_start(trainer, None),
        1.0,
        lambda: hooks.on_train_batch_start(trainer, None, None, 0),
        3.0,
        lambda: hooks.on_train_batch_end(trainer, None, {"loss": 0.5}, None, 0),
        lambda: hooks.on_validation_batch_end(trainer, None, None, None, 0, 0),
        lambda: hooks.on_save_checkpoint(trainer, None, {}),
        lambda: hooks.on_train_end(trainer, None),
    )
    epoch, batch, validation, saving = told.said
    assert epoch == {"split": "train", "epoch": 2, "epochs": 5}
    assert batch.items() >= {"batch": 0, "batch_size": 8, "step": 12, "loss": 0.5, "learning_rate": 0.1}.items()
    assert (batch["wait_seconds"], batch["compute_seconds"]) == (1.0, 3.0)
    assert (validation["split"], saving["phase"], told.flushed) == ("validation", "SaveCheckpoint", 1)


def test_lightnings_trial_of_the_validation_is_none(told: Any) -> None:
    LightningHooks(told).on_validation_batch_end(SimpleNamespace(sanity_checking=True), None, None, None, 0)
    assert told.said == []


def test_transformers_says_epoch_step_log_and_checkpoint(told: Any) -> None:
    args = SimpleNamespace(per_device_train_batch_size=4, gradient_accumulation_steps=2, output_dir="/out")
    state = SimpleNamespace(epoch=1.0, num_train_epochs=3, global_step=7)
    hooks = TrainerHooks(told)
    told.run(
        lambda: hooks.on_epoch_begin(args, state, None, model=None),
        0.5,
        lambda: hooks.on_step_begin(args, state, None),
        2.0,
        lambda: hooks.on_step_end(args, state, None),
        lambda: hooks.on_log(args, state, None, logs={"loss": 0.25, "learning_rate": 1e-4}),
        lambda: hooks.on_save(args, state, None),
        lambda: hooks.on_prediction_step(args, state, None),
        lambda: hooks.on_train_end(args, state, None),
    )
    epoch, step, log, save, validation = told.said
    assert epoch == {"split": "train", "epoch": 1, "epochs": 3}
    assert step == {
        "split": "train", "batch": 0, "batch_size": 8, "step": 7, "wait_seconds": 0.5, "compute_seconds": 2.0
    }  # fmt: skip
    assert log == {"loss": 0.25, "learning_rate": 1e-4}
    assert save == {"saved": "/out/checkpoint-7", "kind": "Checkpoint"}
    assert (validation, told.flushed) == ({"split": "validation"}, 1)


def keras_epoch(told: Any, waits: bool) -> list[dict[str, Any]]:
    hooks: Any = KerasHooks(told, waits)
    hooks.params = {"epochs": 4}
    hooks.model = SimpleNamespace(optimizer=SimpleNamespace(learning_rate=0.01))
    told.run(
        lambda: hooks.on_epoch_begin(1),
        0.5,
        lambda: hooks.on_train_batch_begin(0),
        1.5,
        lambda: hooks.on_train_batch_end(0, {"loss": 2.0}),
        lambda: hooks.on_test_batch_end(0),
        hooks.on_train_end,
    )
    return list(told.said)


def test_keras_says_epoch_batch_loss_and_rate(told: Any) -> None:
    epoch, batch, validation = keras_epoch(told, waits=True)
    assert epoch == {"split": "train", "epoch": 1, "epochs": 4}
    assert batch.items() >= {"batch": 0, "step": 1, "loss": 2.0, "learning_rate": 0.01, "wait_seconds": 0.5}.items()
    assert (validation["split"], told.flushed) == ("validation", 1)


def test_keras_says_no_wait_where_the_step_fetches_its_batch(told: Any) -> None:
    assert "wait_seconds" not in keras_epoch(told, waits=False)[1]


def test_keras_sets_its_sampler_to_each_epoch_and_says_the_order(told: Any) -> None:
    sampler: Any = GlobalShuffleSampler(10, seed=1, rank=0, world_size=1)
    files = {"layout": "Shards", "path": "*.tar"}
    hooks = KerasHooks(told, order={"sampler": sampler, "batch_size": 4, "files": files, "dataset": "train"})
    hooks.on_epoch_begin(3)
    assert sampler.epoch == 3
    assert told.said[0] == {"order": (3, 4, files, "train")}


def test_a_sampler_that_cannot_be_set_to_an_epoch_ends_the_training(told: Any) -> None:
    hooks = KerasHooks(told, order={"sampler": iter([1, 2])})
    with pytest.raises(AttributeError, match="set_epoch"):
        hooks.on_epoch_begin(0)


def test_no_hook_raises_whatever_it_is_called_with(told: Any) -> None:
    started = LightningHooks(told)
    started.on_train_start(None, None)
    for hooks in (LightningHooks(told), started, TrainerHooks(told), KerasHooks(told)):
        for name in dir(hooks):
            if name.startswith("on_"):
                getattr(hooks, name)(None, None, None, None, None)
                getattr(hooks, name)()


@pytest.mark.parametrize(("backend", "wait"), [("jax", False), ("torch", True), ("tensorflow", False)])
def test_the_backend_of_keras_decides_whether_waits_are_seen(
    backend: str, wait: bool, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Callback:
        """A callback of Keras, without the parts that the hooks do not need."""

    package: Any = ModuleType("keras")
    package.callbacks = SimpleNamespace(Callback=Callback)
    package.backend = SimpleNamespace(backend=lambda: backend)
    monkeypatch.setitem(__import__("sys").modules, "keras", package)
    made: Any = keras.callback(told)
    assert issubclass(type(made), Callback)
    made.on_train_batch_begin(0)
    made.on_train_batch_end(0)
    assert ("wait_seconds" in told.said[-1]) is wait


def test_without_lightning_the_sentence_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(ImportError, match="Lightning is not installed"):
        lightning.callback()


def test_tensorflow_is_given_a_generator_of_one_index_each(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}
    package: Any = ModuleType("tensorflow")
    package.int64 = "int64"
    package.TensorSpec = lambda shape, dtype: (shape, dtype)
    package.data = SimpleNamespace(
        Dataset=SimpleNamespace(
            from_generator=lambda function, **options: made.update(options, indices=list(function()))
        )
    )
    monkeypatch.setitem(__import__("sys").modules, "tensorflow", package)
    tensorflow.index_dataset([3, 1, 2])
    assert made == {"output_signature": ((), "int64"), "indices": [3, 1, 2]}

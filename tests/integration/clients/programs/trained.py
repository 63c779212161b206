"""Hugging Face's Trainer with stoker-client's callback, and Accelerate's DataLoaders for several processes.

Run by the Python that has both, with stoker_client on its path. Its last line is JSON, a list of lists: the name of the
training method, the numbers of samples and ranks, the rank, and for each epoch the reported order and the read samples.
At the end the Trainer trains once more and reports to the pod's socket. That run is not in the list.
"""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import torch
from accelerate.data_loader import prepare_data_loader
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainingArguments

from stoker_client import TrainingReport, huggingface
from stoker_client.internal.report_socket import ReportSocket

_BATCH, _RANKS, _EPOCHS, _SEED = 4, 3, 2, 2026
_FILES = {"layout": "Shards", "path": "numbers/*"}
# The number of samples, and the Trainer's ``accelerator_config`` of loaders. For the DataLoader itself: ``shuffle`` and
# ``drop_last``.
_WAYS: dict[str, tuple[int, dict[str, Any]]] = {
    "usual": (43, {}),
    "drop_last": (43, {"drop_last": True}),
    "split_batches": (43, {"split_batches": True}),
    "split_batches, drop_last": (43, {"split_batches": True, "drop_last": True}),
    "few samples": (5, {}),
    "not even_batches": (43, {"even_batches": False}),
    "not even_batches, drop_last": (43, {"even_batches": False, "drop_last": True}),
    "not even_batches, all full": (48, {"even_batches": False}),
    "not seedable": (43, {"use_seedable_sampler": False}),
    "not shuffled": (43, {"shuffle": False}),
}
_TRAININGS: dict[str, dict[str, Any]] = {
    "Trainer": {},
    "Trainer, data_seed": {"data_seed": 7},
    "Trainer, dropping": {"dataloader_drop_last": True},
    "Trainer, dispatch_batches": {"accelerator_config": {"dispatch_batches": True}},
    "Trainer, split_batches": {"accelerator_config": {"split_batches": True}},
    "Trainer, not even_batches": {"accelerator_config": {"even_batches": False}},
    "Trainer, not seedable": {"accelerator_config": {"use_seedable_sampler": False}},
}
Printed = tuple[str, int, int, int, list[tuple[str, list[int]]]]


class Numbers(Dataset):
    """Each sample is its own number. ``read`` has all read samples."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        self.read.append(index)
        return {"number": torch.tensor([float(index)])}


class Model(torch.nn.Module):
    """The smallest model that the Trainer trains."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, number: Any) -> dict[str, Any]:
        return {"loss": (self.weight * number).sum()}


class Lines(ReportSocket):
    """A socket that records the reports of orders."""

    def __init__(self) -> None:
        super().__init__("somewhere")
        self.said: list[str] = []

    def send(self, data: bytes) -> bool:
        self.said += [said for said in [json.loads(data).get("sampling")] if said]
        return True

    def report(self, rank: int = 0, ranks: int = 1) -> TrainingReport:
        """Return a report without a rate limit."""
        return TrainingReport(rank=rank, world_size=ranks, socket=self, clock=itertools.count().__next__)


def _train(numbers: Numbers, report: TrainingReport | None, **options: Any) -> None:
    arguments = TrainingArguments(
        output_dir="out",
        num_train_epochs=_EPOCHS,
        per_device_train_batch_size=_BATCH,
        save_strategy="no",
        seed=_SEED,
        remove_unused_columns=False,
        use_cpu=True,
        disable_tqdm=True,
        report_to=[],
        **options,
    )
    Trainer(Model(), arguments, train_dataset=numbers, callbacks=[huggingface.callback(report, files=_FILES)]).train()


def trainings() -> Iterator[Printed]:
    """Yield the Trainer's reports and reads, with its defaults and with more settings."""
    for name, options in _TRAININGS.items():
        numbers, lines = Numbers(43), Lines()
        _train(numbers, lines.report(), **options)
        each = len(numbers.read) // _EPOCHS
        said = lines.said or [""] * _EPOCHS
        yield (
            name,
            len(numbers),
            1,
            0,
            [(text, numbers.read[e * each : (e + 1) * each]) for e, text in enumerate(said)],
        )


def dealt(name: str, ranks: int, rank: int) -> Printed:
    """Return the reports before each epoch of a rank's loader, and its reads."""
    samples, way = _WAYS[name]
    config = {"use_seedable_sampler": True, "shuffle": True, "drop_last": False, **way}
    numbers = Numbers(samples)
    batch = _BATCH * (ranks if way.get("split_batches") else 1)
    plain = DataLoader(numbers, batch, shuffle=config.pop("shuffle"), drop_last=config.pop("drop_last"))
    loader = prepare_data_loader(plain, num_processes=ranks, process_index=rank, data_seed=_SEED, **config)
    epochs = []
    for _ in range(_EPOCHS):
        lines, numbers.read = Lines(), []
        for _batch in lines.report(rank, ranks).loader(loader, files=_FILES):
            pass
        epochs.append((lines.said[0] if lines.said else "", numbers.read))
    return name, samples, ranks, rank, epochs


def main() -> None:
    """Train last, so that the node's last reports are of the Trainer's default method."""
    torch.set_num_threads(1)
    places = [(ranks, rank) for ranks in (1, _RANKS) for rank in range(ranks)]
    printed = [*(dealt(name, *place) for name in _WAYS for place in places), *trainings()]
    _train(Numbers(43), None, logging_steps=1)
    print(json.dumps(printed))


if __name__ == "__main__":
    main()

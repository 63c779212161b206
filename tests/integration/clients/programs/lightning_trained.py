"""Lightning's Trainer in two processes with stoker-client's callback and sampler, validations and checkpoints.

Run by the Python that has Lightning, with stoker_client on its path. Lightning runs it once more for the second
process. Each writes ``RANK.json``: the samples of each epoch in training order, and the reported wait of each batch in
seconds.
"""

import json
import time
from pathlib import Path
from typing import Any

import torch
from kept_waits import KeptWaits
from pytorch_lightning import LightningModule, Trainer
from torch.utils.data import DataLoader, Dataset

import stoker_client.lightning
from stoker_client import GlobalShuffleSampler

_SAMPLES, _BATCH, _EPOCHS, _SEED, _PROCESSES = 80, 8, 2, 11, 2
_FETCH = 0.05  # seconds until a batch arrives; a step takes almost no time


class Numbers(Dataset):
    """Each sample is its own number, and arrives with a delay."""

    def __len__(self) -> int:
        return _SAMPLES

    def __getitem__(self, index: int) -> Any:
        time.sleep(_FETCH / _BATCH)
        return torch.tensor([float(index)])


class Model(LightningModule):
    """A line through the numbers. It records its samples."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(1, 1)
        self.seen: list[list[int]] = []

    def _register_sharded_tensor_state_dict_hooks_if_available(self) -> None:
        """Do nothing: Debian's PyTorch 1.13 cannot import its sharded tensors under Python 3.11."""

    def on_train_epoch_start(self) -> None:
        self.seen.append([])

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.seen[-1] += [int(number) for number in batch]
        return torch.nn.functional.mse_loss(self.line(batch / _SAMPLES), batch / _SAMPLES)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Ignore the result: the test only needs Lightning to call it."""

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.25)


def main() -> None:
    """Train for two epochs."""
    # As usual: before Lightning starts the second process, and before any process knows its rank.
    sampler = GlobalShuffleSampler(_SAMPLES, seed=_SEED)
    report = KeptWaits(framework="lightning")
    callback = stoker_client.lightning.callback(report, files={"layout": "Shards", "path": "numbers/*"})
    trainer = Trainer(
        accelerator="cpu",
        callbacks=[callback],
        default_root_dir=str(Path.cwd()),
        devices=_PROCESSES,
        enable_model_summary=False,
        enable_progress_bar=False,
        logger=False,
        max_epochs=_EPOCHS,
        strategy="ddp",
        use_distributed_sampler=False,
    )
    model = Model()
    held = DataLoader(Numbers(), batch_size=_BATCH)
    trainer.fit(model, DataLoader(Numbers(), batch_size=_BATCH, sampler=sampler), held)
    Path(f"{trainer.global_rank}.json").write_text(json.dumps([model.seen, report.waits]))


if __name__ == "__main__":
    main()

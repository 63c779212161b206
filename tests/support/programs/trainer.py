"""Typical use of Hugging Face's Trainer: a small vision transformer, random weights, evaluation, checkpoints.

Run by a Python that has transformers and PyTorch: trainer.py DATA CHECKPOINTS TRUTH. TRUTH gets a JSON line at each
change of phase, from the Trainer's own callbacks. Environment variables: EPOCHS is the number of training epochs, STEP
is the minimum seconds of a step.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

TRUTH = Path(sys.argv[3])
EPOCHS = int(os.environ.get("EPOCHS", "3"))
STEP = float(os.environ.get("STEP", "0.4"))  # seconds, as on a busy accelerator
BATCH = 16
WIDTH = 32  # pixels


def say(phase: "str | None", epoch: "int | None" = None) -> None:
    """Log the new phase."""
    with TRUTH.open("a") as out:
        out.write(json.dumps({"t": time.monotonic(), "truth": {"phase": phase, "epoch": epoch}}) + "\n")


say("Initialization")

import numpy  # noqa: E402 - importing takes seconds, which are part of the phase
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from transformers import (  # noqa: E402
    Trainer,
    TrainerCallback,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)


class ImageFolder(torch.utils.data.Dataset):
    """The model's arguments for each image: a folder for each class, sorted."""

    def __init__(self, root: Path) -> None:
        classes = sorted(path.name for path in root.iterdir() if path.is_dir())
        self.samples = [
            (path, number) for number, name in enumerate(classes) for path in sorted((root / name).iterdir())
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> "dict[str, Any]":
        path, number = self.samples[index]
        with Image.open(path) as image:
            pixels = numpy.asarray(image.convert("RGB"), dtype=numpy.float32) / 255
        return {"pixel_values": torch.from_numpy(pixels.transpose(2, 0, 1).copy()), "labels": number}


class Truth(TrainerCallback):
    """Logs the start of each phase from the Trainer, and makes each step take as long as on an accelerator."""

    def __init__(self) -> None:
        self.epoch = 0
        self.training = True
        self.stepped = 0.0

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.epoch = int(state.epoch)
        say("Training", self.epoch)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        say("Validation", self.epoch)

    def on_evaluate(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self.training:
            say("SaveCheckpoint", self.epoch)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.training = False

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._step()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._step()

    def _step(self) -> None:
        time.sleep(max(0.0, self.stepped + STEP - time.monotonic()))
        self.stepped = time.monotonic()


def main() -> None:
    """Train, evaluate and save in each epoch. Then evaluate on the test split."""
    torch.set_num_threads(1)
    root = Path(sys.argv[1])
    arguments = TrainingArguments(
        output_dir=sys.argv[2],
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        dataloader_num_workers=2,
        eval_strategy="epoch",
        save_strategy="epoch",
        use_cpu=True,
        disable_tqdm=True,
        report_to=[],
    )
    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        image_size=WIDTH,
        patch_size=8,
        num_labels=10,
    )
    trainer = Trainer(
        ViTForImageClassification(config),
        arguments,
        train_dataset=ImageFolder(root / "train"),
        eval_dataset=ImageFolder(root / "val"),
        callbacks=[Truth()],
    )
    trainer.train()
    say("Evaluation")
    trainer.evaluate(ImageFolder(root / "test"), metric_key_prefix="test")
    say(None)


if __name__ == "__main__":
    main()

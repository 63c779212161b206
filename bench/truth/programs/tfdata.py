"""TensorFlow as people use it: tf.data over a folder of images, Keras, a step of their own, validation, checkpoints.

Run by a Python that has TensorFlow: tfdata.py DATA CHECKPOINTS TRUTH. TRUTH gets a JSON line at each change of phase.
The variable EPOCHS says how many it trains, STEP and SAVING how many seconds a step and a checkpoint take at least.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

TRUTH = Path(sys.argv[3])
EPOCHS = int(os.environ.get("EPOCHS", "3"))
STEP = float(os.environ.get("STEP", "0.4"))  # seconds, as on an accelerator that is kept busy
SAVING = float(os.environ.get("SAVING", "3"))  # seconds, as for a model of some gigabytes
BATCH = 16
WIDTH = 32  # pixels
HEADER = len(b"P6 32 32 255\n")  # of a bitmap, which TensorFlow does not know


def say(phase: "str | None", epoch: "int | None" = None) -> None:
    """Log what is done from now on."""
    with TRUTH.open("a") as out:
        out.write(json.dumps({"t": time.monotonic(), "truth": {"phase": phase, "epoch": epoch}}) + "\n")


say("Initialization")

import tensorflow as tf  # noqa: E402 - importing takes seconds, which are part of the phase


def read(path: Any, number: Any) -> tuple[Any, Any]:
    """Return an image's pixels, from 0 to 1, and its class."""
    pixels = tf.io.decode_raw(tf.strings.substr(tf.io.read_file(path), HEADER, 3 * WIDTH * WIDTH), tf.uint8)
    return tf.cast(tf.reshape(pixels, (WIDTH, WIDTH, 3)), tf.float32) / 255, number


def split(root: Path, *, shuffled: bool) -> Any:
    """Return the batches of a split: a folder for each class."""
    classes = sorted(path.name for path in root.iterdir() if path.is_dir())
    rows = [(str(path), number) for number, name in enumerate(classes) for path in sorted((root / name).iterdir())]
    data = tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*rows, strict=True))))
    data = data.shuffle(len(rows)) if shuffled else data
    return data.map(read, num_parallel_calls=4).batch(BATCH).prefetch(2)


def paced(rows: Iterable[Any]) -> Iterator[Any]:
    """Pass on batches, of which each takes as long as on an accelerator."""
    for row in rows:
        started = time.monotonic()
        yield row
        time.sleep(max(0.0, started + STEP - time.monotonic()))


def main() -> None:
    """Train, validate and save, epoch by epoch; then evaluate on the test split."""
    root, checkpoints = Path(sys.argv[1]), Path(sys.argv[2])
    train = split(root / "train", shuffled=True)
    validation, test = (split(root / name, shuffled=False) for name in ("val", "test"))
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input((WIDTH, WIDTH, 3)), layers.Conv2D(8, 3, 2), layers.ReLU(), layers.Flatten(), layers.Dense(10)]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    for epoch in range(EPOCHS):
        say("Training", epoch)
        for pixels, numbers in paced(train):
            model.train_on_batch(pixels, numbers)
        say("Validation", epoch)
        for pixels, numbers in paced(validation):
            model.test_on_batch(pixels, numbers)
        say("SaveCheckpoint", epoch)
        model.save_weights(checkpoints / f"checkpoint-epoch{epoch}.weights.h5")
        time.sleep(SAVING)
    say("Evaluation")
    for pixels, numbers in paced(test):
        model.test_on_batch(pixels, numbers)
    say(None)


if __name__ == "__main__":
    main()

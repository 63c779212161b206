"""Typical JAX: a jitted step over batches that threads read ahead, with validation and checkpoints.

Run by a Python that has JAX and Pillow: jax_loop.py DATA CHECKPOINTS TRUTH. TRUTH gets a JSON line at each change of
phase. Environment variables: EPOCHS is the number of training epochs, STEP and SAVING are the minimum seconds of a step
and a checkpoint.
"""

import json
import os
import random
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

TRUTH = Path(sys.argv[3])
EPOCHS = int(os.environ.get("EPOCHS", "3"))
STEP = float(os.environ.get("STEP", "0.4"))  # seconds, as on a busy accelerator
SAVING = float(os.environ.get("SAVING", "3"))  # seconds, as for a model of some gigabytes
BATCH = 16
THREADS = 4
AHEAD = 4  # batches that are read in advance


def say(phase: "str | None", epoch: "int | None" = None) -> None:
    """Log the new phase."""
    with TRUTH.open("a") as out:
        out.write(json.dumps({"t": time.monotonic(), "truth": {"phase": phase, "epoch": epoch}}) + "\n")


say("Initialization")

import jax  # noqa: E402 - importing takes seconds, which are part of the phase
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402
from PIL import Image  # noqa: E402

Sample = tuple[Path, int]
Parameters = dict[str, Any]


def samples(root: Path) -> list[Sample]:
    """List a split: a folder for each class, sorted."""
    classes = sorted(path.name for path in root.iterdir() if path.is_dir())
    return [(path, number) for number, name in enumerate(classes) for path in sorted((root / name).iterdir())]


def read(path: Path) -> Any:
    """Return an image's pixels, from 0 to 1."""
    with Image.open(path) as image:
        return numpy.asarray(image.convert("RGB"), dtype=numpy.float32) / 255


def batches(pool: ThreadPoolExecutor, split: Sequence[Sample]) -> Iterator[tuple[Any, Any]]:
    """Yield batches in this order, while threads read the next ones."""
    waiting: deque[tuple[list[Future[Any]], list[int]]] = deque()
    for at in range(0, len(split), BATCH):
        part = split[at : at + BATCH]
        waiting.append(([pool.submit(read, path) for path, _ in part], [number for _, number in part]))
        if len(waiting) > AHEAD:
            yield _batch(*waiting.popleft())
    while waiting:
        yield _batch(*waiting.popleft())


def _batch(images: "list[Future[Any]]", numbers: "list[int]") -> tuple[Any, Any]:
    return numpy.stack([image.result() for image in images]), numpy.asarray(numbers)


def loss(parameters: Parameters, pixels: Any, numbers: Any) -> Any:
    """Return the cross entropy of a network with one hidden layer."""
    hidden = jax.nn.relu(pixels.reshape(pixels.shape[0], -1) @ parameters["hidden"])
    odds = jax.nn.log_softmax(hidden @ parameters["out"])
    return -jnp.mean(jnp.take_along_axis(odds, numbers[:, None], axis=1))


@jax.jit
def trained(parameters: Parameters, pixels: Any, numbers: Any) -> Parameters:
    """Return the parameters after a step."""
    slopes = jax.grad(loss)(parameters, pixels, numbers)
    return {name: value - 0.01 * slopes[name] for name, value in parameters.items()}


def paced(rows: "Iterator[tuple[Any, Any]]") -> "Iterator[tuple[Any, Any]]":
    """Forward batches, each with the duration of a step on an accelerator."""
    for row in rows:
        started = time.monotonic()
        yield row
        time.sleep(max(0.0, started + STEP - time.monotonic()))


def main() -> None:
    """Train, validate and save in each epoch. Then evaluate on the test split."""
    root, checkpoints = Path(sys.argv[1]), Path(sys.argv[2])
    train, validation, test = (samples(root / name) for name in ("train", "val", "test"))
    keys = jax.random.split(jax.random.PRNGKey(0))
    inputs = read(train[0][0]).size
    parameters = {
        "hidden": jax.random.normal(keys[0], (inputs, 64)) / inputs**0.5,
        "out": jax.random.normal(keys[1], (64, 10)) / 8,
    }
    measured = jax.jit(loss)
    with ThreadPoolExecutor(THREADS) as pool:
        for epoch in range(EPOCHS):
            say("Training", epoch)
            for pixels, numbers in paced(batches(pool, random.Random(epoch).sample(train, len(train)))):
                parameters = trained(parameters, pixels, numbers)
            say("Validation", epoch)
            for pixels, numbers in paced(batches(pool, validation)):
                measured(parameters, pixels, numbers)
            say("SaveCheckpoint", epoch)
            save(parameters, checkpoints / f"checkpoint-epoch{epoch}.npz")
        say("Evaluation")
        for pixels, numbers in paced(batches(pool, test)):
            measured(parameters, pixels, numbers)
    say(None)


def save(parameters: Parameters, path: Path) -> None:
    """Write a checkpoint, with the duration of a larger model's."""
    arrays: dict[str, Any] = {name: numpy.asarray(value) for name, value in parameters.items()}
    with path.open("wb") as out:
        numpy.savez(out, **arrays)
        time.sleep(SAVING)
        out.flush()


if __name__ == "__main__":
    main()

"""A training with only the standard library: a folder of classes, four worker processes, validation, checkpoints.

epochs.py DATA CHECKPOINTS TRUTH. TRUTH gets a JSON line at each change of phase, with the share of an epoch spent
waiting for data. Environment variables: EPOCHS is the number of training epochs, STEP and SAVING are the minimum
seconds of a step and a checkpoint. With STOKER_REPORT_SOCKET it also reports (docs/guides/reports.md).
"""

import itertools
import json
import multiprocessing
import os
import random
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

TRUTH = Path(sys.argv[3])
REPORT = os.environ.get("STOKER_REPORT_SOCKET", "")
EPOCHS = int(os.environ.get("EPOCHS", "3"))
STEP = float(os.environ.get("STEP", "0.4"))  # seconds, as on a busy accelerator
SAVING = float(os.environ.get("SAVING", "3"))  # seconds, as for a model of some gigabytes
BATCH, WORKERS = 16, 4
Task = tuple[int, list[Path]]  # a batch: its number and its files


def say(phase: "str | None", epoch: "int | None" = None, **facts: float) -> None:
    """Log the new phase, with ``facts`` about the previous one."""
    with TRUTH.open("a") as out:
        out.write(json.dumps({"t": time.monotonic(), "truth": {"phase": phase, "epoch": epoch}, **facts}) + "\n")
    report(phase=phase, epoch=epoch)


def report(**line: "float | str | None") -> None:
    """Report a line, if there is a socket."""
    told = {name: value for name, value in line.items() if value is not None}
    if REPORT and told:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.sendto(json.dumps({"v": 1, **told}).encode(), REPORT)


def work(tasks: "multiprocessing.Queue[Task | None]", results: "multiprocessing.Queue[tuple[int, int]]") -> None:
    """Read the files of batches until the queue ends."""
    while (task := tasks.get()) is not None:
        number, paths = task
        results.put((number, sum(len(path.read_bytes()) for path in paths)))


def batches(root: Path, shuffled: "random.Random | None") -> "Iterator[int]":
    """Yield the batch sizes of a split. Workers started for the split read ahead, over two queues."""
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    if shuffled is not None:
        shuffled.shuffle(paths)
    groups = [paths[at : at + BATCH] for at in range(0, len(paths), BATCH)]
    tasks: multiprocessing.Queue[Task | None] = multiprocessing.Queue()
    results: multiprocessing.Queue[tuple[int, int]] = multiprocessing.Queue()
    workers = [multiprocessing.Process(target=work, args=(tasks, results), daemon=True) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    ahead, done = enumerate(groups), dict[int, int]()
    for task in itertools.islice(ahead, 2 * WORKERS):
        tasks.put(task)
    for number in range(len(groups)):
        while number not in done:
            came, size = results.get()
            done[came] = size
        yield done.pop(number)
        tasks.put(next(ahead, None))
    for worker in workers:
        worker.join()


def train(root: Path, epoch: int) -> float:
    """Train an epoch. Return the share of its time spent waiting for data."""
    began = asked = time.monotonic()
    waited = 0.0
    for _ in batches(root, random.Random(epoch)):
        started = time.monotonic()
        waited += started - asked
        time.sleep(STEP)
        report(wait_seconds=started - asked, compute_seconds=time.monotonic() - started, items=BATCH)
        asked = time.monotonic()
    return waited / (asked - began)


def evaluate(root: Path) -> None:
    """Read a split once."""
    for _ in batches(root, None):
        time.sleep(STEP)


def main() -> None:
    """Train, validate and save in each epoch. Then evaluate on the test split."""
    root, checkpoints = Path(sys.argv[1]), Path(sys.argv[2])
    say("Initialization")
    time.sleep(SAVING)  # imports of real frameworks take seconds
    for epoch in range(EPOCHS):
        say("Training", epoch)
        stall = train(root / "train", epoch)
        say("Validation", epoch, stall=stall)
        evaluate(root / "val")
        say("SaveCheckpoint", epoch)
        (checkpoints / f"checkpoint-epoch{epoch}.pt").write_bytes(bytes(2**20))
        time.sleep(SAVING)
    say("Evaluation")
    evaluate(root / "test")
    say(None)


if __name__ == "__main__":
    main()

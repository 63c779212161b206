"""Simulated accelerators: processes that take batches from a prefetching loader and compute for a fixed time a step."""

import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from bench.readers import WHOLE_BUFFER, receive_line, send_line

# An accelerator of the H100 class on ResNet-50: this many images a step, in this time; 2,051 images/s.
IMAGES_A_BATCH = 400
STEP_SECONDS = 0.195
# One of the A100 class: 920 images/s.
SLOWER_STEP_SECONDS = 0.435
# As PyTorch's DataLoader is mostly used: 4 workers, each two batches ahead.
LOADERS = 4
_BATCHES_AHEAD = 2 * LOADERS


@dataclass(frozen=True)
class Assignment:
    """What one accelerator does in an epoch: its images in order, ``batch`` of them a step of ``step`` seconds."""

    images: Sequence[str]
    batch: int = IMAGES_A_BATCH
    step: float = STEP_SECONDS

    @property
    def compute_seconds(self) -> float:
        """Seconds at work: a last step that is not full takes its share."""
        return len(self.images) / self.batch * self.step


@dataclass(frozen=True)
class Training:
    """One epoch of all accelerators.

    ``compute`` sums their seconds at work; ``seconds`` is from the start until the last has ended.
    """

    accelerators: int
    images: int
    compute: float
    seconds: float

    @property
    def rate(self) -> float:
        """Images a second of all accelerators together."""
        return self.images / self.seconds

    @property
    def utilisation(self) -> float:
        """Share of the time that accelerators were at work, not waiting for images."""
        return self.compute / (self.accelerators * self.seconds)


def shares(order: Sequence[str], accelerators: int) -> list[list[str]]:
    """Deal the images of an epoch out, as a distributed sampler does. Pure."""
    return [list(order[number::accelerators]) for number in range(accelerators)]


def train(
    root: Path, orders: Sequence[Sequence[str]], batch: int = IMAGES_A_BATCH, step: float = STEP_SECONDS
) -> Training:
    """Train one epoch, with an accelerator for each of ``orders``. Raises BenchError when an image cannot be read."""
    assignments = [Assignment(order, batch, step) for order in orders]
    with ExitStack() as stack:
        children = [stack.enter_context(_accelerator(root)) for _ in assignments]
        for child in children:
            stack.callback(child.kill)  # an interrupted run must not wait for the end of an epoch
        for child, assignment in zip(children, assignments, strict=True):
            send_line(child, json.dumps(asdict(assignment)))
        for child in children:
            receive_line(child)
        start = time.monotonic()
        for child in children:
            send_line(child, "go")
        ends = [float(receive_line(child)) for child in children]
    images = sum(len(assignment.images) for assignment in assignments)
    return Training(
        len(assignments), images, sum(assignment.compute_seconds for assignment in assignments), max(ends) - start
    )


def _accelerator(root: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.trainer", str(root)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def batches(images: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Cut into consecutive batches; the last may be smaller. Pure."""
    return (images[start : start + size] for start in range(0, len(images), size))


def _load(root: str, images: Sequence[str]) -> int:
    buffer = bytearray(WHOLE_BUFFER)
    for image in images:
        descriptor = os.open(f"{root}/{image}", os.O_RDONLY)
        while os.readv(descriptor, [buffer]):
            pass
        os.close(descriptor)
    return len(images)


def _run(root: str, assignment: Assignment) -> None:
    todo = batches(assignment.images, assignment.batch)
    with ThreadPoolExecutor(LOADERS) as loaders:
        ahead: deque[Future[int]] = deque(
            loaders.submit(_load, root, images) for images in islice(todo, _BATCHES_AHEAD)
        )
        while ahead:
            loaded = ahead.popleft().result()
            ahead.extend(loaders.submit(_load, root, images) for images in islice(todo, 1))
            time.sleep(assignment.step * loaded / assignment.batch)


def main() -> None:
    """Be the accelerator's process: assignment, then the word to go, on standard input; the end on standard output."""
    assignment = Assignment(**json.loads(sys.stdin.readline()))
    print("ready", flush=True)
    sys.stdin.readline()
    _run(sys.argv[1], assignment)
    print(time.monotonic(), flush=True)


if __name__ == "__main__":
    main()

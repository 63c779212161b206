"""Simulated accelerators: processes that take batches from a prefetching loader and compute for a fixed step time."""

import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from bench.children import receive_job, run_together
from bench.readers import WHOLE_BUFFER

# An accelerator of the H100 class on ResNet-50: images per step, and seconds per step. 2,051 images/s.
IMAGES_A_BATCH = 400
STEP_SECONDS = 0.195
# The common use of PyTorch's DataLoader: 4 workers, each two batches ahead.
LOADERS = 4
_BATCHES_AHEAD = 2 * LOADERS


@dataclass(frozen=True)
class Accelerator:
    """A class of accelerator: images per step, and seconds of a step."""

    batch: int
    step: float

    @property
    def rate(self) -> float:
        """Images per second of an accelerator that never waits."""
        return self.batch / self.step

    @property
    def says(self) -> str:
        """Its part of the name of a case."""
        return f"{self.batch} images a step of {self.step:.3f} s"


H100 = Accelerator(IMAGES_A_BATCH, STEP_SECONDS)
A100 = Accelerator(IMAGES_A_BATCH, 0.435)  # 920 images/s
RETINANET = Accelerator(24, 0.04755)  # B200 class in MLPerf Storage v3.0: 505 images/s


@dataclass(frozen=True)
class Assignment:
    """The work of one accelerator in an epoch: its images in order, with steps of ``batch`` images.

    ``step`` is the seconds of a step.
    """

    images: Sequence[str]
    batch: int = IMAGES_A_BATCH
    step: float = STEP_SECONDS

    @property
    def compute_seconds(self) -> float:
        """Seconds of computation. A partial last step takes its share."""
        return len(self.images) / self.batch * self.step


@dataclass(frozen=True)
class Training:
    """One epoch of all accelerators.

    ``compute`` is the sum of their seconds of computation. ``seconds`` is from the start to the end of the last one.
    """

    accelerators: int
    images: int
    compute: float
    seconds: float

    @property
    def rate(self) -> float:
        """Images per second of all accelerators together."""
        return self.images / self.seconds

    @property
    def utilisation(self) -> float:
        """Share of the time in which accelerators computed instead of waiting for images."""
        return self.compute / (self.accelerators * self.seconds)


def shares(order: Sequence[str], accelerators: int) -> list[list[str]]:
    """Assign the images of an epoch to ranks, as a distributed sampler does. Pure."""
    return [list(order[number::accelerators]) for number in range(accelerators)]


def train(
    root: Path, orders: Sequence[Sequence[str]], batch: int = IMAGES_A_BATCH, step: float = STEP_SECONDS
) -> Training:
    """Train one epoch, with an accelerator for each of ``orders``. Raises BenchError if an image cannot be read."""
    assignments = [Assignment(order, batch, step) for order in orders]
    start, ends = run_together("bench.trainer", root, [asdict(assignment) for assignment in assignments])
    images = sum(len(assignment.images) for assignment in assignments)
    compute = sum(assignment.compute_seconds for assignment in assignments)
    return Training(len(assignments), images, compute, max(map(float, ends)) - start)


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
    with ThreadPoolExecutor(LOADERS) as pool:
        ahead: deque[Future[int]] = deque(pool.submit(_load, root, images) for images in islice(todo, _BATCHES_AHEAD))
        while ahead:
            loaded = ahead.popleft().result()
            ahead.extend(pool.submit(_load, root, images) for images in islice(todo, 1))
            time.sleep(assignment.step * loaded / assignment.batch)


def main() -> None:
    """Run an accelerator process. It gets the assignment and the start signal on stdin, and prints the end time."""
    _run(sys.argv[1], Assignment(**receive_job()))
    print(time.monotonic(), flush=True)


if __name__ == "__main__":
    main()

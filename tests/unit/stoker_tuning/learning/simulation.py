"""A workload whose items per second depend on one knob, with noise and drift, for tests of learners."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from stoker_tuning.learning.changes import Change
from stoker_tuning.learning.experiment import FigureWindow
from stoker_tuning.vocabulary import AccessPattern, TrainingPhase

Response = Callable[[float], float]


def change(old: float = 64, new: float = 512, name: str = "c1", origin: str = "ahead") -> Change:
    training, shuffled = TrainingPhase.TRAINING, AccessPattern.SHUFFLED
    return Change(name, 0.0, "vision/imagenet", "v1", "uid", training, shuffled, "prefetch_depth", old, new, origin)


@dataclass
class SimulatedWorkload:
    """Items per second of a window: the response times log-normal noise times drift."""

    response: Response
    noise: float = 0.1
    drift: Callable[[int], float] = lambda _: 1.0
    seed: int = 0
    windows: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def run(self, value: float) -> FigureWindow:
        self.windows += 1
        rate = 1000 * self.response(value) * self.drift(self.windows) * math.exp(self._random.gauss(0, self.noise))
        return FigureWindow(rate)


def saturating(half: float) -> Response:
    return lambda value: value / (value + half)


def falling(value: float) -> float:
    return 1 / (1 + value / 64)


def flat(_: float) -> float:
    return 1.0

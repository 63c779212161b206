"""Epochs of the real libraries: for each question, the reads of each rank, as digests."""

import hashlib
import json
import subprocess
from array import array
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import datasets
import numpy as np

from stoker_client import GlobalShuffleSampler, GroupShuffleSampler, QualityRatioSampler
from stoker_client.sampler import EpochSampler
from stoker_orders.predictors.interface import OrderQuestion
from tests.support.pythons import DEBIANS_PYTHON, TRAINERS_PYTHON

_PROGRAM = Path(__file__).parent / "programs" / "sample_orders.py"
Truth = Callable[[Sequence[OrderQuestion]], list[list[str]]]


def digest(order: Iterable[int]) -> str:
    """Return a digest of an order."""
    return hashlib.sha256(array("I", order).tobytes()).hexdigest()


def torch_says(cases: Iterable[Sequence[Any]], python: Path = DEBIANS_PYTHON) -> list[Any]:
    """Return the answers of Debian's PyTorch to these cases of the program."""
    run = subprocess.run(
        [python, "-W", "ignore", str(_PROGRAM)],
        input=json.dumps(list(cases)),
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    answers: list[Any] = json.loads(run.stdout)
    return answers


def torch(kind: str) -> Truth:
    """Return PyTorch's sampler of a kind, which the program knows."""

    def says(asked: Sequence[OrderQuestion]) -> list[list[str]]:
        cases = [
            (kind, one.samples, one.seed, one.epoch, one.ranks, rank, one.drop_last)
            for one in asked
            for rank in range(one.ranks)
        ]
        said = iter(torch_says(cases))
        return [[next(said) for _ in range(one.ranks)] for one in asked]

    return says


def accelerate(kind: str) -> Truth:
    """Return the ranks' reads of batches that Accelerate deals, in one of the two ways of the program."""

    def says(asked: Sequence[OrderQuestion]) -> list[list[str]]:
        cases = [
            (kind, one.samples, one.seed, one.epoch, one.ranks, rank, one.drop_last, one.batch)
            for one in asked
            for rank in range(one.ranks)
        ]
        said = iter(torch_says(cases, TRAINERS_PYTHON))
        return [[next(said) for _ in range(one.ranks)] for one in asked]

    return says


def listed(asked: Sequence[OrderQuestion]) -> list[list[str]]:
    """Return the order of a list of files: the list itself."""
    return [[digest(range(one.samples))] for one in asked]


def numpy_permutation(asked: Sequence[OrderQuestion]) -> list[list[str]]:
    """Return the permutations of NumPy's new generators, in turns."""
    return _in_turns((np.random.default_rng(one.seed + one.epoch).permutation(one.samples) for one in asked), asked)


def numpy_legacy(asked: Sequence[OrderQuestion]) -> list[list[str]]:
    """Return the permutations of NumPy's old generator, dealt among ranks as the job's code does."""
    return [[digest(share) for share in _dealt(one)] for one in asked]


def _dealt(asked: OrderQuestion) -> list[Any]:
    order = np.random.RandomState(asked.seed + asked.epoch).permutation(asked.samples)
    ranks, whole = asked.ranks, asked.samples // asked.ranks * asked.ranks
    if ("deal", "blocks") in asked.parameters:
        return np.split(order[:whole], ranks)
    if asked.drop_last:
        order = order[:whole]
    elif whole < len(order):
        order = np.resize(order, whole + ranks)
    return [order[rank::ranks] for rank in range(ranks)]


def hugging_face(asked: Sequence[OrderQuestion]) -> list[list[str]]:
    """Return how Hugging Face shuffles, in turns."""
    return _in_turns(map(_shuffled, asked), asked)


def _shuffled(asked: OrderQuestion) -> Any:
    dataset = datasets.Dataset.from_dict({"number": np.arange(asked.samples)}).with_format("arrow")
    return dataset.shuffle(seed=asked.seed, keep_in_memory=True)[:]["number"].to_numpy()


def _in_turns(orders: Iterable[Any], asked: Sequence[OrderQuestion]) -> list[list[str]]:
    """Deal orders among ranks as PyTorch's DistributedSampler deals a dataset that is already in that order."""
    cases = [
        (one.samples, one.ranks, rank, one.drop_last) for one in asked if one.ranks > 1 for rank in range(one.ranks)
    ]
    places = iter(_places(tuple(cases)))
    return [
        [digest(order[next(places)] if one.ranks > 1 else order) for _ in range(one.ranks)]
        for order, one in zip(orders, asked, strict=True)
    ]


@cache
def _places(cases: tuple[tuple[int, int, int, bool], ...]) -> list[list[int]]:
    """Return the ranks' positions. Each case is asked only once, because importing PyTorch takes seconds."""
    return torch_says(("in_turns", *one) for one in cases)


def _global(asked: OrderQuestion, rank: int) -> EpochSampler:
    return GlobalShuffleSampler(asked.samples, **_place(asked, rank))


def _group(asked: OrderQuestion, rank: int) -> EpochSampler:
    said = dict(asked.parameters)
    return GroupShuffleSampler(
        asked.samples, int(said["groupSize"]), reservoir=int(said["reservoir"]), **_place(asked, rank)
    )


def _quality(asked: OrderQuestion, rank: int) -> EpochSampler:
    ratio = float(Fraction(dict(asked.parameters)["ratio"]))
    return QualityRatioSampler(asked.samples, ratio, **_place(asked, rank))


def _place(asked: OrderQuestion, rank: int) -> dict[str, Any]:
    return {"seed": asked.seed, "rank": rank, "world_size": asked.ranks, "drop_last": asked.drop_last}


_OF_THE_CLIENT = {"global": _global, "group": _group, "quality": _quality}


def client(kind: str) -> Truth:
    """Return stoker-client's sampler of a kind."""

    def says(asked: Sequence[OrderQuestion]) -> list[list[str]]:
        return [[_client_rank(kind, one, rank) for rank in range(one.ranks)] for one in asked]

    return says


def _client_rank(kind: str, asked: OrderQuestion, rank: int) -> str:
    sampler = _OF_THE_CLIENT[kind](asked, rank)
    sampler.set_epoch(asked.epoch)
    return digest(sampler)

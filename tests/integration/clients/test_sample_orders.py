"""Each predictor gives the order that the real library gives, for several sizes, seeds, epochs and world sizes."""

import hashlib
import json
import subprocess
from array import array
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest

from stoker_client import GlobalShuffleSampler, GroupShuffleSampler, QualityRatioSampler
from stoker_client.sampler import EpochSampler
from stoker_orders.job_order import JobOrder
from stoker_orders.loading import Loading, rank_order
from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from stoker_orders.sample_map import FileMap
from stoker_orders.sampling_plan import SamplingPlan

_PROGRAM = Path(__file__).parent / "programs" / "sample_orders.py"
_DEBIANS_PYTHON = "/usr/bin/python3"
SIZES = (1, 2, 3, 10, 1000, 65_537)
SEEDS = (0, 3, 42, 2**32 - 1, 2**40 + 7, 2**53 - 1)
# Samples, seed, epoch, ranks, rank, drop last.
TORCH = [
    *((size, seed, epoch, 1, 0, False) for size in SIZES for seed in SEEDS for epoch in (0, 5)),
    *((997, -3, 1, ranks, rank, drop) for ranks in (2, 3, 8) for rank in range(ranks) for drop in (False, True)),
    *((5, 1, 0, 16, rank, False) for rank in range(16)),  # fewer samples than ranks
    (2_000_000, 11, 2, 8, 5, False),
]
GENERATOR = [
    (size, seed, epoch, 1, 0, False) for size in (1, 2, 65, 1000) for seed in (0, 7, 2**40) for epoch in (0, 3)
]


def torch_says(cases: Iterable[tuple[Any, ...]]) -> list[Any]:
    run = subprocess.run(
        [_DEBIANS_PYTHON, "-W", "ignore", str(_PROGRAM)],
        input=json.dumps(list(cases)),
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    answers: list[Any] = json.loads(run.stdout)
    return answers


def digest(order: Iterable[int]) -> str:
    return hashlib.sha256(array("I", order).tobytes()).hexdigest()


def predicted(name: SamplerName, size: int, seed: int, epoch: int, ranks: int, rank: int, drop_last: bool) -> str:
    plan = SamplingPlan(name, seed)
    order = SAMPLERS[name].order(size, plan.seed_of(epoch), epoch)
    return digest(rank_order(order, Loading(size, ranks, (rank,), drop_last=drop_last), rank))


@pytest.mark.parametrize(
    ("name", "kind", "cases"),
    [
        (SamplerName.TORCH_DISTRIBUTED, "distributed", TORCH),
        (SamplerName.TORCH_SEQUENTIAL, "sequential", TORCH[-40:]),
        (SamplerName.ACCELERATE_SEEDABLE, "seedable", [case for case in TORCH if case[3] == 1]),
        (SamplerName.TORCH_RANDOM, "generator", GENERATOR),
    ],
)
def test_orders_are_those_of_pytorch(name: SamplerName, kind: str, cases: list[tuple[Any, ...]]) -> None:
    truth = torch_says((kind, *case) for case in cases)
    wrong = [case for case, said in zip(cases, truth, strict=True) if predicted(name, *case) != said]
    assert wrong == []


def test_loaders_of_pytorch_take_batches_in_turns() -> None:
    [who] = torch_says([("loaded", 50, 4, 3)])
    assert who == [index // 4 % 3 for index in range(50)]


@pytest.mark.parametrize("size", [*SIZES, 2_000_000])
def test_permutations_are_those_of_numpy(size: int) -> None:
    for seed in SEEDS if size < 2_000_000 else (5,):
        plan = SamplingPlan(SamplerName.NUMPY_PERMUTATION, seed)
        order = SAMPLERS[plan.sampler].order(size, plan.seed_of(2), 2)
        assert np.array_equal(np.asarray(order), np.random.default_rng(seed + 2).permutation(size)), seed


@pytest.mark.parametrize(
    ("sampler", "plan"),
    [
        (GlobalShuffleSampler(2_000_000, seed=7, rank=1, world_size=4), SamplingPlan(SamplerName.STOKER_SHUFFLE, 7)),
        (
            GroupShuffleSampler(2_000_000, 16, seed=7, rank=1, world_size=4),
            SamplingPlan(SamplerName.STOKER_GROUP_SHUFFLE, 7, group=16),
        ),
        (
            QualityRatioSampler(2_000_000, 0.5, seed=7, rank=1, world_size=4),
            SamplingPlan(SamplerName.STOKER_QUALITY_RATIO, 7, ratio=Fraction(1, 2)),
        ),
    ],
)
def test_orders_of_two_million_samples_are_those_of_the_client(sampler: EpochSampler, plan: SamplingPlan) -> None:
    sampler.set_epoch(5)
    order = JobOrder(replace(plan, ranks=4), FileMap(range(2_000_000)), (1,))
    samples = order.epoch(5).samples
    assert digest(rank_order(samples, replace(order.loading, samples=len(samples)), 1)) == digest(sampler)


@pytest.mark.parametrize("size", [3, 1000, 65_537])
def test_shuffles_are_those_of_hugging_face(size: int) -> None:
    dataset = datasets.Dataset.from_dict({"number": range(size)})
    for seed in (0, 42, 2**40):
        order = SAMPLERS[SamplerName.HUGGINGFACE_SHUFFLE].order(size, seed, 4)
        assert list(order) == list(dataset.shuffle(seed=seed, keep_in_memory=True)["number"]), seed

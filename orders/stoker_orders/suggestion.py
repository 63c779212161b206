"""Guesses a program's sampling from its arguments and variables. It is a suggestion only, never applied. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from stoker_orders.predictors.samplers import SamplerName

# Options and keys by meaning, the most reliable name first. Dashes and underscores are equivalent.
_SEEDS = ("data-seed", "sampler-seed", "shuffle-seed", "seed", "manual-seed", "random-seed", "global-seed")
_OTHERS = {
    "epochs": ("epochs", "num-epochs", "num-train-epochs", "max-epochs"),
    "batch": ("batch-size", "per-device-train-batch-size", "train-batch-size"),
    "loaders": ("workers", "num-workers", "dataloader-num-workers"),
}
# PYTHONHASHSEED affects sets of strings, not samples.
_VARIABLES = ("DATA_SEED", "PL_GLOBAL_SEED", "SEED", "GLOBAL_SEED", "RANDOM_SEED")
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
_MOST = {"epochs": 1_000_000, "batch": 1_000_000, "loaders": 256}


class FoundSeed(NamedTuple):
    """A whole number that may be a sampler's seed. ``place`` is its option, key or variable."""

    value: int
    place: str


def seeds_of(words: Sequence[str], variables: Mapping[str, str]) -> list[FoundSeed]:
    """Return the seeds in a command line and an environment, the most reliable first.

    Forms are ``--seed 42``, ``--seed=42``, ``trainer.seed=42``, and a variable such as PL_GLOBAL_SEED.
    """
    found = [(_SEEDS.index(key), FoundSeed(value, place)) for key, value, place in _options(words) if key in _SEEDS]
    for rank, name in enumerate(_VARIABLES, start=len(_SEEDS)):
        value = _whole(variables.get(name, ""))
        if value is not None:
            found.append((rank, FoundSeed(value, name)))
    return [seed for _, seed in sorted(found, key=lambda each: each[0])]


def suggested_sampling(words: Sequence[str], seed: int) -> dict[str, str | int]:
    """Return a suggested sampling: the likely sampler, the seed, and values from other options."""
    is_accelerate = any(word.rpartition("/")[2] == "accelerate" for word in words)
    sampler = SamplerName.ACCELERATE_SEEDABLE if is_accelerate else SamplerName.TORCH_DISTRIBUTED
    found: dict[str, str | int] = {"sampler": sampler.value, "seed": seed}
    given = {name: value for name, value, _ in _options(words)}
    for field, options in _OTHERS.items():
        value = next((given[name] for name in options if name in given), 0)
        if 0 < value <= _MOST[field]:
            found[field] = value
    return found


def _options(words: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Yield options and keys with a whole number: the plain name, the number, and the written form."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        left, is_pair, right = word.partition("=")
        value = _whole(right if is_pair else following)
        if value is None or not (is_pair or word.startswith("-")):
            continue
        dashes = "--" if word.startswith("-") else ""
        key = left.lstrip("-+").rpartition(".")[2].replace("_", "-").lower()
        yield key, value, f"{dashes}{key}"


def _whole(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None

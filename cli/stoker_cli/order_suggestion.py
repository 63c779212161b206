"""Which order a pod may read in, by its arguments and environment: suggested to people, never applied. Pure."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from stoker_api import names
from stoker_orders.predictors.samplers import SamplerName

# Options and keys by what they mean, the surest name first. Dashes and underscores are alike.
_SEEDS = ("data-seed", "sampler-seed", "shuffle-seed", "seed", "manual-seed", "random-seed", "global-seed")
_OTHERS = {
    "epochs": ("epochs", "num-epochs", "num-train-epochs", "max-epochs"),
    "batch": ("batch-size", "per-device-train-batch-size", "train-batch-size"),
    "loaders": ("workers", "num-workers", "dataloader-num-workers"),
}
# PYTHONHASHSEED orders sets of strings, no samples.
_VARIABLES = ("DATA_SEED", "PL_GLOBAL_SEED", "SEED", "GLOBAL_SEED", "RANDOM_SEED")
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
_SHELLS = ("sh", "bash", "dash", "zsh")
_MOST_WORDS, _MOST_SCRIPT = 500, 16_384  # of one container; characters of a line for a shell
_MOST = {"epochs": 1_000_000, "batch": 1_000_000, "loaders": 256}


class FoundSeed(NamedTuple):
    """A whole number that may be a sampler's seed; ``place``: the option, key or variable that has it."""

    value: int
    place: str


def seeds_of(words: Sequence[str], variables: Mapping[str, str]) -> list[FoundSeed]:
    """Return the seeds of a command line and an environment, the surest first.

    As ``--seed 42``, ``--seed=42`` or ``trainer.seed=42``, and as a variable such as PL_GLOBAL_SEED.
    """
    found = [(_SEEDS.index(key), FoundSeed(value, place)) for key, value, place in _options(words) if key in _SEEDS]
    for rank, name in enumerate(_VARIABLES, start=len(_SEEDS)):
        value = _whole(variables.get(name, ""))
        if value is not None:
            found.append((rank, FoundSeed(value, name)))
    return [seed for _, seed in sorted(found, key=lambda each: each[0])]


def sentences(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence with what could be written, for a pod whose order is not said and whose seed is found."""
    annotations = pod["metadata"].get("annotations") or {}
    if names.ANNOTATION_SAMPLING in annotations or names.ANNOTATION_DATASETS not in annotations:
        return ()
    for container in pod["spec"].get("containers") or ():
        words, variables = _words(container), _variables(container)
        seeds = seeds_of(words, variables)
        if seeds:
            return (_sentence(seeds, _sampling(words, seeds[0].value), is_job=_is_of_job(pod)),)
    return ()


def _sentence(seeds: Sequence[FoundSeed], sampling: Mapping[str, Any], *, is_job: bool) -> str:
    where = "in the spec of its TrainingJob" if is_job else f"as its annotation {names.ANNOTATION_SAMPLING}"
    said = json.dumps(sampling)
    line = f"sampling: {said}" if is_job else f"'{said}'"
    others = sorted({f"{one.place} {one.value}" for one in seeds if one.value != seeds[0].value})
    unlike = f" ({', '.join(others)} is there as well.)" if others else ""
    return (
        f"Its order is not said, and {seeds[0].place} is {seeds[0].value}: if that seeds its sampler, its node can "
        "fetch ahead. Nothing of it is assumed; look at sampler and files (docs/ORDERS.md), and write "
        f"{where}: {line}{unlike}"
    )


def _sampling(words: Sequence[str], seed: int) -> dict[str, Any]:
    is_accelerate = any(word.rpartition("/")[2] == "accelerate" for word in words)
    sampler = SamplerName.ACCELERATE_SEEDABLE if is_accelerate else SamplerName.TORCH_DISTRIBUTED
    found: dict[str, Any] = {"sampler": sampler.value, "seed": seed}
    given = {name: value for name, value, _ in _options(words)}
    for field, options in _OTHERS.items():
        value = next((given[name] for name in options if name in given), 0)
        if 0 < value <= _MOST[field]:
            found[field] = value
    return found


def _options(words: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Yield the options and keys that have a whole number: their plain name, the number, and how they are written."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        left, is_pair, right = word.partition("=")
        value = _whole(right if is_pair else following)
        if value is None or not (is_pair or word.startswith("-")):
            continue
        dashes = "--" if word.startswith("-") else ""
        key = left.lstrip("-+").rpartition(".")[2].replace("_", "-").lower()
        yield key, value, f"{dashes}{key}"


def _words(container: Mapping[str, Any]) -> list[str]:
    """Return what a container runs, with what it has a shell run."""
    words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))][:_MOST_WORDS]
    if words and words[0].rpartition("/")[2] in _SHELLS:
        return [*words, *(inner for word in words[1:] for inner in _script(word))][: 2 * _MOST_WORDS]
    return words


def _script(text: str) -> Iterable[str]:
    try:
        return shlex.split(text[:_MOST_SCRIPT], comments=True)
    except ValueError:  # quotes of a script that are no plain words
        return text[:_MOST_SCRIPT].split()


def _variables(container: Mapping[str, Any]) -> dict[str, str]:
    return {str(each.get("name")): str(each.get("value", "")) for each in container.get("env") or ()}


def _whole(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None


def _is_of_job(pod: Mapping[str, Any]) -> bool:
    return names.LABEL_TRAINING_JOB in (pod["metadata"].get("labels") or {})

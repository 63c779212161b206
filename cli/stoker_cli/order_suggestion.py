"""Which order a pod may read in, by its arguments and environment: suggested to people, never applied. Pure."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stoker_api import names
from stoker_orders.suggestion import FoundSeed, seeds_of, suggested_sampling

_SHELLS = ("sh", "bash", "dash", "zsh")
_MOST_WORDS, _MOST_SCRIPT = 500, 16_384  # of one container; characters of a line for a shell


def sentences(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence with what could be written, for a pod whose order is not said and whose seed is found."""
    annotations = pod["metadata"].get("annotations") or {}
    if names.ANNOTATION_SAMPLING in annotations or names.ANNOTATION_DATASETS not in annotations:
        return ()
    for container in pod["spec"].get("containers") or ():
        words, variables = _words(container), _variables(container)
        seeds = seeds_of(words, variables)
        if seeds:
            return (_sentence(seeds, suggested_sampling(words, seeds[0].value), is_job=_is_of_job(pod)),)
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


def _is_of_job(pod: Mapping[str, Any]) -> bool:
    return names.LABEL_TRAINING_JOB in (pod["metadata"].get("labels") or {})

"""Suggests a known order for a pod from its arguments and environment. Never applied automatically. Pure."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stoker_api import names
from stoker_orders.suggestion import FoundSeed, seeds_of, suggested_sampling

_SHELLS = ("sh", "bash", "dash", "zsh")
_MOST_WORDS, _MOST_SCRIPT = 500, 16_384  # of a container; characters of a shell command


def sentences(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a suggestion for a pod with a seed and without a known order."""
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
    text = json.dumps(sampling)
    line = f"sampling: {text}" if is_job else f"'{text}'"
    others = sorted({f"{seed.place} {seed.value}" for seed in seeds if seed.value != seeds[0].value})
    unlike = f" (It also has {', '.join(others)}.)" if others else ""
    return (
        f"Its read order is not known, and {seeds[0].place} is {seeds[0].value}. If this seeds its sampler, the node "
        "can prefetch. Check sampler and files (docs/guides/known-orders.md), then write "
        f"{where}: {line}{unlike}"
    )


def _words(container: Mapping[str, Any]) -> list[str]:
    """Return the command of a container, with the words of shell scripts in it."""
    words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))][:_MOST_WORDS]
    if words and words[0].rpartition("/")[2] in _SHELLS:
        return [*words, *(inner for word in words[1:] for inner in _script(word))][: 2 * _MOST_WORDS]
    return words


def _script(text: str) -> Iterable[str]:
    try:
        return shlex.split(text[:_MOST_SCRIPT], comments=True)
    except ValueError:  # unbalanced quotes
        return text[:_MOST_SCRIPT].split()


def _variables(container: Mapping[str, Any]) -> dict[str, str]:
    return {str(each.get("name")): str(each.get("value", "")) for each in container.get("env") or ()}


def _is_of_job(pod: Mapping[str, Any]) -> bool:
    return names.LABEL_TRAINING_JOB in (pod["metadata"].get("labels") or {})

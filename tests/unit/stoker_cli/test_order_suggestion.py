"""Suggestions for a known order from arguments and environment of a pod."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api import names
from stoker_api.jobs.sampling import parse_sampling_text
from stoker_cli.pods.order_suggestion import sentences
from stoker_cli.pods.why import explain
from stoker_orders.suggestion import FoundSeed, seeds_of
from tests.support.present import present


def pod(command: list[str], *, job: str = "", env: Any = (), sampling: str = "") -> dict[str, Any]:
    said = {names.ANNOTATION_DATASETS: "imagenet:/data"} | ({names.ANNOTATION_SAMPLING: sampling} if sampling else {})
    container = {"name": "train", "command": command, "env": list(env)}
    return {
        "metadata": {
            "name": "p",
            "namespace": "n",
            "labels": {names.LABEL_TRAINING_JOB: job} if job else {},
            "annotations": said,
        },
        "spec": {"containers": [container]},
    }


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["train.py", "--seed", "42"], FoundSeed(42, "--seed")),
        (["train.py", "--seed=42"], FoundSeed(42, "--seed")),
        (["train.py", "-seed", "-1"], FoundSeed(-1, "--seed")),
        (["train.py", "--manual_seed", "7"], FoundSeed(7, "--manual-seed")),
        (["train.py", "seed=42"], FoundSeed(42, "seed")),
        (["train.py", "+trainer.seed=42"], FoundSeed(42, "seed")),
        (["train.py", "--seed", "1", "--data-seed", "2"], FoundSeed(2, "--data-seed")),
    ],
)
def test_seeds_are_found_in_common_options(words: list[str], found: FoundSeed) -> None:
    assert seeds_of(words, {})[0] == found


@pytest.mark.parametrize(
    "words",
    [["--seed"], ["--seed", "random"], ["--seed", "4.2"], ["seed", "42"], ["--seeds=4"], ["--seed", "9" * 30], []],
)
def test_other_options_are_not_seeds(words: list[str]) -> None:
    assert seeds_of(words, {}) == []


def test_variables_come_after_options_and_pythonhashseed_is_not_a_seed() -> None:
    variables = {"PYTHONHASHSEED": "0", "PL_GLOBAL_SEED": "3", "SEED": "4"}
    assert seeds_of(["--seed=1"], variables) == [
        FoundSeed(1, "--seed"),
        FoundSeed(3, "PL_GLOBAL_SEED"),
        FoundSeed(4, "SEED"),
    ]
    assert seeds_of([], {"PYTHONHASHSEED": "0"}) == []


def test_a_suggestion_is_a_valid_sampling() -> None:
    command = ["torchrun", "train.py", "--seed", "42", "--batch-size=64", "--workers", "8", "--epochs", "90"]
    (sentence,) = sentences(pod(command))
    written = present(re.search(r"stoker.dev/sampling: '(.*)'", sentence))
    said = parse_sampling_text(written[1])
    assert (said.sampler, said.seed, said.batch, said.loaders, said.epochs) == ("torch-distributed", 42, 64, 8, 90)
    (of_job,) = sentences(pod(command, job="j"))
    assert 'in the spec of its TrainingJob: sampling: {"sampler": "torch-distributed", "seed": 42' in of_job


def test_seeds_in_shell_scripts_are_found() -> None:
    (sentence,) = sentences(pod(["/bin/bash", "-c", "pip list && accelerate launch train.py --seed 5 # --seed 6"]))
    assert '{"sampler": "accelerate-seedable", "seed": 5}' in sentence


def test_different_seeds_are_all_listed() -> None:
    (sentence,) = sentences(pod(["x", "--seed", "1"], env=[{"name": "SEED", "value": "2"}]))
    assert "--seed is 1" in sentence
    assert "(It also has SEED 2.)" in sentence


def test_a_pod_with_a_known_order_or_without_datasets_gets_no_suggestion() -> None:
    assert sentences(pod(["x", "--seed", "1"], sampling='{"seed": 1}')) == ()
    other = pod(["x", "--seed", "1"])
    other["metadata"]["annotations"] = {}
    assert sentences(other) == ()


def test_why_has_the_suggestion() -> None:
    assert any("--seed is 42" in line for line in explain(pod(["x", "--seed", "42"]), []).lines)


@settings(max_examples=40)
@given(st.lists(st.text(max_size=30), max_size=5), st.dictionaries(st.text(), st.text(), max_size=3))
def test_odd_command_lines_do_not_fail(words: list[str], variables: dict[str, str]) -> None:
    env = [{"name": name, "value": value} for name, value in variables.items()]
    assert isinstance(sentences(pod(["sh", *words], env=env)), tuple)
    assert json.dumps(sentences(pod(words)))

"""Seeds of a pod's arguments and environment are found, and suggested with what could be written."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api import names
from stoker_api.sampling import parse_sampling_text
from stoker_cli.order_suggestion import sentences
from stoker_cli.why import explain
from stoker_orders.suggestion import FoundSeed, seeds_of


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
def test_seeds_are_found_as_programs_take_them(words: list[str], found: FoundSeed) -> None:
    assert seeds_of(words, {})[0] == found


@pytest.mark.parametrize(
    "words",
    [["--seed"], ["--seed", "random"], ["--seed", "4.2"], ["seed", "42"], ["--seeds=4"], ["--seed", "9" * 30], []],
)
def test_what_is_no_seed_is_none(words: list[str]) -> None:
    assert seeds_of(words, {}) == []


def test_variables_come_after_options_and_that_of_hashes_is_none() -> None:
    variables = {"PYTHONHASHSEED": "0", "PL_GLOBAL_SEED": "3", "SEED": "4"}
    assert seeds_of(["--seed=1"], variables) == [
        FoundSeed(1, "--seed"),
        FoundSeed(3, "PL_GLOBAL_SEED"),
        FoundSeed(4, "SEED"),
    ]
    assert seeds_of([], {"PYTHONHASHSEED": "0"}) == []


def test_what_is_suggested_can_be_written_as_it_is() -> None:
    command = ["torchrun", "train.py", "--seed", "42", "--batch-size=64", "--workers", "8", "--epochs", "90"]
    (sentence,) = sentences(pod(command))
    written = re.search(r"stoker.dev/sampling: '(.*)'", sentence)
    assert written is not None
    said = parse_sampling_text(written[1])
    assert (said.sampler, said.seed, said.batch, said.loaders, said.epochs) == ("torch-distributed", 42, 64, 8, 90)
    (of_job,) = sentences(pod(command, job="j"))
    assert 'in the spec of its TrainingJob: sampling: {"sampler": "torch-distributed", "seed": 42' in of_job


def test_what_a_shell_runs_is_looked_at() -> None:
    (sentence,) = sentences(pod(["/bin/bash", "-c", "pip list && accelerate launch train.py --seed 5 # --seed 6"]))
    assert '{"sampler": "accelerate-seedable", "seed": 5}' in sentence


def test_seeds_that_differ_are_all_told() -> None:
    (sentence,) = sentences(pod(["x", "--seed", "1"], env=[{"name": "SEED", "value": "2"}]))
    assert "--seed is 1" in sentence
    assert "(SEED 2 is there as well.)" in sentence


def test_nothing_is_suggested_where_the_order_is_said_or_no_data_is_ours() -> None:
    assert sentences(pod(["x", "--seed", "1"], sampling='{"seed": 1}')) == ()
    other = pod(["x", "--seed", "1"])
    other["metadata"]["annotations"] = {}
    assert sentences(other) == ()


def test_why_tells_it() -> None:
    assert any("--seed is 42" in line for line in explain(pod(["x", "--seed", "42"]), []).lines)


@given(st.lists(st.text(max_size=30), max_size=5), st.dictionaries(st.text(), st.text(), max_size=3))
def test_no_command_line_breaks_it(words: list[str], variables: dict[str, str]) -> None:
    env = [{"name": name, "value": value} for name, value in variables.items()]
    assert isinstance(sentences(pod(["sh", *words], env=env)), tuple)
    assert json.dumps(sentences(pod(words)))

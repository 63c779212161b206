"""Answers of the built-in plug-ins about files, and about arguments and environments of containers."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_tuning.frameworks.builtin_plugins import (
    BUILT_IN,
    HuggingfacePlugin,
    JaxPlugin,
    PytorchPlugin,
    TensorflowPlugin,
)
from stoker_tuning.frameworks.container_context import container_context
from tests.support.cases import cases

ALL = (PytorchPlugin(), TensorflowPlugin(), JaxPlugin(), HuggingfacePlugin())
_HEADER = json.dumps({"a.weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
SAFETENSORS = struct.pack("<Q", len(_HEADER)) + _HEADER + bytes(4)


@cases(
    "path, head, framework",
    ("train.py", b'"""Trains."""\nimport torch.nn as nn\n', "pytorch"),
    ("last.pth", b"", "pytorch"),
    ("train.py", b"import tensorflow as tf\n", "tensorflow"),
    ("a/train-00001-of-00010.tfrecord", b"", "tensorflow"),
    ("model/saved_model.pb", b"", "tensorflow"),
    ("train.py", b"import numpy\nfrom jax import numpy as jnp\n", "jax"),
    ("ckpt/100/manifest.ocdbt", b"", "jax"),
    ("finetune.ipynb", b'{"cells": [{"source": [\n    "from transformers import Trainer\\n"]}]}', "huggingface"),
    ("model/config.json", b'{"model_type": "llama"}', "huggingface"),
    ("model.safetensors", SAFETENSORS, "huggingface"),
)
def test_a_file_tells_its_framework(path: str, head: bytes, framework: str) -> None:
    confidences = {plugin.name: plugin.detect(path, head) for plugin in ALL}
    assert max(confidences, key=confidences.__getitem__) == framework
    assert confidences[framework] >= 0.6


@pytest.mark.parametrize("path", ["cat.jpg", "config.json", "torch.txt", "notes.py", ""])
def test_files_without_signs_have_no_framework(path: str) -> None:
    assert [plugin.detect(path, b'{"import": "torch"}') for plugin in ALL] == [0.0] * 4


@given(path=st.text(), head=st.binary(max_size=300))
def test_the_answer_for_any_file_is_a_confidence(path: str, head: bytes) -> None:
    assert all(0.0 <= plugin.detect(path, head) <= 1.0 for plugin in ALL)


def pod(arguments: list[str], variables: dict[str, str]) -> dict[str, Any]:
    env = [{"name": name, "value": value} for name, value in variables.items()]
    return {"spec": {"containers": [{"image": "x", "command": ["python"], "args": arguments, "env": env}]}}


@cases(
    "arguments, variables, found",
    (["train.py", "--batch-size", "64"], {"BATCH_SIZE": "8"}, {"batch_size": 64.0}),
    (["train.py --batch_size=32"], {}, {"batch_size": 32.0}),
    ([], {"BATCH_SIZE": "8"}, {"batch_size": 8.0}),
    (["--batch-size"], {}, {}),
    (["--batch-size", "many"], {"BATCH_SIZE": "-1"}, {}),
    ([], {}, {}),
)
def test_a_batch_size_comes_from_the_command_line_or_else_from_the_environment(
    arguments: list[str], variables: dict[str, str], found: dict[str, float]
) -> None:
    assert PytorchPlugin().hints(container_context(pod(arguments, variables))) == found


def test_the_trainers_own_flag_is_known() -> None:
    context = container_context(pod(["--per_device_train_batch_size", "4"], {}))
    assert HuggingfacePlugin().hints(context) == {"batch_size": 4.0}


def test_the_context_is_that_of_the_container_with_gpus() -> None:
    gpus = {"image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    assert container_context({"spec": {"containers": [{"image": "proxy"}, gpus]}})["image"] == "train"


_JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)
_CONTAINERS = st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(("image", "command", "args", "env"), _JSON)))


@settings(max_examples=40)
@given(containers=_CONTAINERS | _JSON)
def test_the_context_of_any_manifest_has_its_shape(containers: Any) -> None:
    context = container_context({"spec": {"containers": containers}})
    assert set(context) == {"image", "arguments", "environment"}
    assert all(plugin.hints(context) is not None for plugin in ALL)


def test_what_is_long_is_cut() -> None:
    context = container_context(pod(["x" * 5000] * 1000, {str(number): "y" * 5000 for number in range(1000)}))
    assert (len(context["arguments"]), len(context["environment"])) == (256, 256)
    assert max(map(len, context["arguments"])) == 1024


def test_each_is_named_as_entry_points_name_objects() -> None:
    assert BUILT_IN["jax"] == "stoker_tuning.frameworks.builtin_plugins:JaxPlugin"

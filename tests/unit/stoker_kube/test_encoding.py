"""The body of server-side apply, which the API server parses as YAML."""

import json
from typing import Any

import pytest
import yaml

from stoker_kube.client import apply_body

TEXTS = ["plain", "é ü \x7f \x85 \u2028 \ufeff \uffff", "\U0001f600", "a\\ud83d\\ude00", "'\"\n\t\x00", "\U0010ffff"]


@pytest.mark.parametrize("text", TEXTS)
def test_text_of_every_plane_is_equal_in_yaml_and_json(text: str) -> None:
    body: dict[str, Any] = {"key " + text: [text, 1, None, True]}
    assert yaml.safe_load(apply_body(body)) == json.loads(apply_body(body)) == body


def test_a_lone_surrogate_is_replaced() -> None:
    assert json.loads(apply_body({"a\udc00": "b\ud83d"})) == {"a\ufffd": "b\ufffd"}

"""Untrusted text on a terminal."""

from typing import Any

import pytest
from rich.console import RenderableType

from stoker_api.datasets.dataset import Dataset
from stoker_cli import render
from stoker_cli.output import console
from stoker_cli.pods.why import PodExplanation
from stoker_cli.pods.why_command import explanation

HOSTILE = ["no object [/train]/a[b].jpg", "shard-[a-z]*.tar", "[link=x]here[/link]"]


def shown(drawn: RenderableType) -> str:
    out = console()
    with out.capture() as text:
        out.print(drawn)
    return text.get()


def dataset(words: str) -> Dataset:
    node: dict[str, Any] = {"name": "a", "phase": "Failed", "lastError": words}
    said = {
        "type": "Warm",
        "status": "False",
        "reason": "x",
        "message": words,
        "lastTransitionTime": "2026-11-21T10:00:00Z",
    }
    spec = {"source": {"uri": "s3://bucket/"}, "warm": {"paths": [words]}}
    status = {"phase": "Degraded", "nodes": [node], "conditions": [said]}
    return Dataset.model_validate({"metadata": {"namespace": "v", "name": "d"}, "spec": spec, "status": status})


@pytest.mark.parametrize("words", HOSTILE)
def test_brackets_in_names_and_patterns_are_shown_as_they_are(words: str) -> None:
    assert " ".join(shown(render.dataset(dataset(words))).split()).count(words) == 3


@pytest.mark.parametrize("words", HOSTILE)
def test_events_are_shown_as_they_are(words: str) -> None:
    events = ({"time": "10:00", "reason": "Failed", "message": words, "type": "Warning"},)
    text = shown(explanation(PodExplanation(pod="v/p", state=words, lines=(words,), events=events)))

    assert text.count(words) == 3


def test_nothing_moves_the_cursor() -> None:
    text = shown(render.dataset(dataset("a\x1b[2Jb\x07")))

    assert "\x1b[2J" not in text
    assert "a?[2Jb?" in text

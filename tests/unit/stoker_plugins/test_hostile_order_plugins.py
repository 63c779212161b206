"""Order plug-ins that raise, hang or lie are skipped with a message. Invalid orders are rejected."""

import textwrap
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_orders.predictors.interface import OrderQuestion
from stoker_plugins.asking import ask
from stoker_plugins.discovery import InstalledPlugin, PluginKind, installed_plugins
from stoker_plugins.order_questions import EpochQuestion
from stoker_tuning.frameworks.answers import MOST_PLUGINS, PluginRefusedError
from tests.support.cases import cases

ASKED = OrderQuestion(100, seed=3, ranks=4, batch=2, parameters=(("deal", "turns"),))
Asked = Callable[..., "array[int]"]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Ask an order plug-in with this body."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def ask_one(body: str, seconds: float = 30.0, question: OrderQuestion = ASKED) -> "array[int]":
        lines = ['name = "odd"', *textwrap.dedent(body).splitlines()]
        (tmp_path / "odd_plugin.py").write_text("\n".join(["class Plugin:", *(f"    {line}" for line in lines)]))
        return ask(InstalledPlugin("odd", "odd_plugin:Plugin", "test"), EpochQuestion(question), seconds)

    return ask_one


def test_a_plug_in_gets_the_sampling_of_the_job(asked: Asked) -> None:
    body = """
        def order(self, asked):
            assert asked == {"samples": 100, "seed": 3, "epoch": 0, "ranks": 4, "batch": 2, "drop_last": False,
                             "parameters": {"deal": "turns"}}, asked
            return reversed(range(asked["samples"]))
    """
    assert list(asked(body)) == list(range(99, -1, -1))


@cases(
    "body, sentence",
    ("def order(self, asked): raise KeyError('x')", "it failed: KeyError"),
    ("def order(self, asked): return [100]", "its order has sample 100 of 100, which begin at 0"),
    ("def order(self, asked): return [-1]", "it failed: OverflowError"),
    ("def order(self, asked): return ['1']", "it failed: TypeError"),
    ("def order(self, asked): return []", "its order has no samples"),
    ("def order(self, asked): return [0] * 10", "its order has 9 samples that came before, and 8 may"),
    ("def order(self, asked): return (0 for _ in range(10**12))", "more than the 108 samples"),
    ("def order(self, asked): import os; os._exit(0)", "its process ended without an answer"),
    ("def order(self, asked): return bytearray(10**9)", "it failed: MemoryError"),
    ("order = None", "it failed: TypeError"),
    ("name = 'even'\ndef order(self, asked): return range(100)", "it calls itself even, and its entry point odd"),
)
def test_one_that_is_wrong_is_left_out_with_a_sentence(asked: Asked, body: str, sentence: str) -> None:
    with pytest.raises(PluginRefusedError) as refused:
        asked(body)
    assert sentence in str(refused.value)


def test_one_that_hangs_is_left_out(asked: Asked) -> None:
    with pytest.raises(PluginRefusedError, match=r"it did not answer within 0\.5 s"):
        asked("def order(self, asked):\n    while True: pass", seconds=0.5)


@given(st.binary(max_size=300))
def test_no_bytes_are_believed_that_are_no_order(said: bytes) -> None:
    with pytest.raises(PluginRefusedError):
        EpochQuestion(ASKED).read("odd", said)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 120), max_size=150), st.integers(0, 150))
def test_what_is_believed_is_within_the_bounds(samples: list[int], counted: int) -> None:
    said = f'{{"name": "odd", "samples": {counted}}}\n'.encode() + array("I", samples).tobytes()
    try:
        order = EpochQuestion(ASKED).read("odd", said)
    except PluginRefusedError:
        return
    assert len(said) <= EpochQuestion(ASKED).most_bytes
    assert len(order) == counted
    assert 0 < len(order) <= len(set(order)) + 8
    assert max(order) < 100


def test_plug_ins_with_wrong_or_repeated_names_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, name in (("a", "odd"), ("b", "odd"), ("c", "Odd One")):
        folder = tmp_path / f"{package}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        (folder / "entry_points.txt").write_text(f"[stoker.orders]\n{name} = {package}:Plugin\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = {one.origin: one.refused for one in installed_plugins(PluginKind.ORDER)}
    assert found["a 1"] == ""
    assert found["b 1"] == "another plug-in has its name, and came first"
    assert found["c 1"].startswith("its name must be")
    assert len(found) <= MOST_PLUGINS

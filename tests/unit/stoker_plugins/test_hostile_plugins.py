"""Plug-ins that raise, hang or lie are skipped with a message, and harm nothing."""

import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker_plugins.asking import ask
from stoker_plugins.discovery import InstalledPlugin, installed_plugins
from stoker_plugins.framework_question import FileHead, FrameworkQuestion
from stoker_tuning.documents.assembly import plugin_document
from stoker_tuning.frameworks.answers import MOST_PLUGINS, PluginAnswer, PluginRefusedError
from tests.support.cases import cases

ASKED = FrameworkQuestion((FileHead("a.bin", b"head"),))
Asked = Callable[..., PluginAnswer]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Ask a valid plug-in with this body added."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def ask_one(body: str = "", before: str = "", seconds: float = 30.0) -> PluginAnswer:
        good = """
            name = "odd"
            def detect(self, path, head): return 0.5
            def hints(self, context): return {}
            def default_rules(self): return []
            def default_templates(self): return []
        """
        lines = [*textwrap.dedent(good).splitlines(), *body.splitlines()]
        module = [before, "class Plugin:", *(f"    {line}" for line in lines)]
        (tmp_path / "odd_plugin.py").write_text("\n".join(module))
        return ask(InstalledPlugin("odd", "odd_plugin:Plugin", "test"), ASKED, seconds)

    return ask_one


def test_a_good_one_is_believed(asked: Asked) -> None:
    answer = asked()
    assert (answer.name, answer.confidences, answer.rules) == ("odd", (0.5,), ())


@cases(
    "body, sentence",
    ("def detect(self, path, head): raise KeyError('x')", "it failed: KeyError"),
    ("def detect(self, path, head): return 7", "its confidence is 7, and must be a number from 0 to 1"),
    ("def detect(self, path, head): return True", "its confidence is True"),
    ("def detect(self, path, head): return float('nan')", "its confidence is nan"),
    ("def detect(self, path, head): return 'sure'", "its confidence is sure"),
    ("def hints(self, context): return {'memory': 1}", "there is no hint memory"),
    ("def hints(self, context): return {'batch_size': -1}", "its batch_size is -1"),
    ("def hints(self, context): return [1]", "its hints are no names"),
    ("name = 'pytorch'", "it calls itself pytorch, and its entry point odd"),
    ("def default_rules(self): return ({} for _ in range(10**9))", "it has more than 64 rules"),
    ("def default_rules(self): return None", "it failed: TypeError"),
    ("def default_templates(self): return [{'id': 'x' * 10**6}]", "its answer is larger than 256 KiB"),
    ("def default_rules(self): return [bytearray(8 << 30)]", "it failed: MemoryError"),
    ("def detect(self, path, head): raise SystemExit(0)", "its process ended without an answer"),
    ("def detect(self, path, head): import os; os.abort()", "its process ended without an answer"),
)
def test_one_that_raises_or_lies_is_left_out(asked: Asked, body: str, sentence: str) -> None:
    with pytest.raises(PluginRefusedError) as refused:
        asked(body)
    assert str(refused.value).startswith(sentence)


def test_one_that_hangs_is_left_out_and_its_process_ended(asked: Asked, tmp_path: Path) -> None:
    told = tmp_path / "pid"
    os.mkfifo(told)
    reader = os.open(told, os.O_RDONLY | os.O_NONBLOCK)
    body = f"""
def detect(self, path, head):
    import os, time
    with open({str(told)!r}, "w") as out: out.write(str(os.getpid()))
    while True: time.sleep(1)
"""
    with pytest.raises(PluginRefusedError, match="it did not answer within 5 s"):
        asked(body, seconds=5.0)
    pid = int(os.read(reader, 100))
    os.close(reader)
    assert not Path(f"/proc/{pid}").exists()


def test_one_that_cannot_be_imported_is_left_out(asked: Asked) -> None:
    with pytest.raises(PluginRefusedError, match="ModuleNotFoundError"):
        asked(before="import nowhere_to_be_found")


def test_what_it_prints_is_no_answer_and_credentials_are_not_its_business(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    said = "import os, sys\nprint('{}', flush=True); print('x' * 10**6, file=sys.stderr)"
    body = "def detect(self, path, head): return float('AWS_SECRET_ACCESS_KEY' in os.environ)"
    assert asked(body, before=said).confidences == (0.0,)


def test_rules_that_no_document_may_have_are_refused(asked: Asked) -> None:
    answer = asked("def default_rules(self): return [{'id': 'x', 'actions': [{'type': 'explode'}]}]")
    with pytest.raises(PluginRefusedError, match=r"its rules or templates are refused: .*explode"):
        plugin_document(answer)


def entry_points(site: Path, number: int, name: str) -> None:
    folder = site / f"plug{number}-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: plug{number}\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(f"[stoker.frameworks]\n{name} = nowhere:Plugin{number}\n")


@cases("name, refused", ("pytorch", "another plug-in has its name"), ("No Name", "its name must be"))
def test_a_plug_in_takes_no_name_that_is_taken_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, refused: str
) -> None:
    entry_points(tmp_path, 0, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    (found,) = (one for one in installed_plugins() if one.origin == "plug0 1")
    assert found.refused.startswith(refused)
    with pytest.raises(PluginRefusedError, match=refused):
        ask(found, ASKED)


def test_there_is_a_most_of_plug_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MOST_PLUGINS + 10):
        entry_points(tmp_path, number, f"one-{number:03}")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = installed_plugins()
    assert len(found) == MOST_PLUGINS + 1
    assert found[-1].refused == f"there are more than {MOST_PLUGINS} plug-ins"

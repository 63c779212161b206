"""How `stoker mount` becomes the sidecar's program for one machine."""

import os
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from stoker_cli.main import main
from stoker_cli.mount import PROGRAM


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    words: list[str] = []

    def execv(_path: str, argv: Any) -> None:
        words.extend(argv)

    monkeypatch.setattr(os, "execv", execv)
    return words


@pytest.mark.parametrize(
    "words", [["mount", "s3://b/p", "/data", "--warm", "-o", "json"], ["mount", "--help"], ["umount", "/data"]]
)
def test_every_word_is_handed_on(executed: list[str], words: list[str]) -> None:
    CliRunner().invoke(main, words)
    assert executed == [sys.executable, "-m", PROGRAM, *words]


def test_that_program_is_there() -> None:
    done = subprocess.run(
        [sys.executable, "-m", PROGRAM, "mount", "--help"], capture_output=True, text=True, check=True
    )
    assert "--warm" in done.stdout

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


@pytest.mark.parametrize("command", ["mount", "umount"])
def test_a_mount_waits_for_no_import_of_what_asks_a_cluster(command: str) -> None:
    code = (
        "import os, sys\n"
        "heavy = {'click', 'pydantic', 'aiohttp', 'kubernetes', 'botocore', 'asyncio'}\n"
        "os.execv = lambda path, argv: print(argv[2:], sorted(heavy & set(sys.modules)))\n"
        "from stoker_cli.entry import main\n"
        f"sys.argv = ['stoker', '{command}', '/data']\n"
        "main()\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout
    assert out.splitlines()[0] == f"{[PROGRAM, command, '/data']} []"


def test_other_commands_begin_there_too() -> None:
    code = "import sys; sys.argv = ['stoker', '--help']; from stoker_cli.entry import main; main()"
    assert "status" in subprocess.check_output([sys.executable, "-c", code], text=True)


def test_that_program_is_there() -> None:
    done = subprocess.run(
        [sys.executable, "-m", PROGRAM, "mount", "--help"], capture_output=True, text=True, check=True
    )
    assert "--warm" in done.stdout

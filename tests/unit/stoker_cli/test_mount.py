"""How `stoker mount` starts the program of the sidecar package."""

import os
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from stoker_cli import entry
from stoker_cli.local.mount import PROGRAM
from stoker_cli.main import main
from tests.support.cases import cases


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    words: list[str] = []

    def execve(_path: str, argv: Any, _environment: Any) -> None:
        words.extend(argv)

    monkeypatch.setattr(os, "execve", execve)
    return words


@cases("words", ["mount", "s3://b/p", "/data", "--warm", "-o", "json"], ["mount", "--help"], ["umount", "/data"])
def test_all_arguments_are_passed_to_the_program(executed: list[str], words: list[str]) -> None:
    CliRunner().invoke(main, words)
    assert executed == [sys.executable, "-X", "utf8", "-P", "-m", PROGRAM, *words]


@pytest.mark.parametrize("command", ["mount", "umount"])
def test_a_mount_does_not_import_the_kubernetes_client(command: str) -> None:
    code = (
        "import os, sys\n"
        "heavy = {'click', 'pydantic', 'aiohttp', 'kubernetes', 'botocore', 'asyncio'}\n"
        "def execve(path, argv, environment):\n"
        "    print(argv[5:], sorted(heavy & set(sys.modules)), flush=True)\n"
        "    os._exit(0)\n"
        "os.execve = execve\n"
        "from stoker_cli.entry import main\n"
        f"sys.argv = ['stoker', '{command}', '/data']\n"
        "main()\n"
    )
    out = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert out.splitlines() == [f"{[PROGRAM, command, '/data']} []"]


def test_other_commands_have_the_same_entry_point(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["stoker", "--help"])
    with pytest.raises(SystemExit):
        entry.main()
    assert "status" in capsys.readouterr().out


def test_the_program_exists() -> None:
    done = subprocess.run(
        [sys.executable, "-m", PROGRAM, "mount", "--help"], capture_output=True, text=True, check=True
    )
    assert "--warm" in done.stdout

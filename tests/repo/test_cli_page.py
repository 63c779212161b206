"""The page of the CLI names every command, and no other."""

import re
from pathlib import Path

from stoker_cli.main import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md"


def test_the_page_names_every_command() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| exit code")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`([\w-]+)`", " ".join(rows))) == sorted(main.commands)

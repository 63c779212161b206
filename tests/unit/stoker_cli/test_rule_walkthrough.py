"""The walkthrough in docs/guides/tuning.md matches the program."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker_cli.main import main

PAGE = Path(__file__).parents[3] / "docs" / "guides/tuning.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("## Write a rule in five minutes\n")[2].partition("\n## ")[0]
RULE = SECTION.partition("```yaml\n")[2].partition("```")[0]
STEPS = re.findall(r"^\$ stoker (.+)\n((?:(?!\$ |```).*\n)*)", SECTION, re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("train/0001.tar", "train/0002.tar", "train/0003.tar"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_bytes(bytes(2**20))
    (tmp_path / "data" / "val").mkdir()
    (tmp_path / "data" / "val" / "0001.tar").write_bytes(bytes(2**16))
    (tmp_path / "data" / "classes.json").write_text("{}\n")
    (tmp_path / "shards.yaml").write_text(RULE)
    (tmp_path / "wrong.yaml").write_text(RULE.replace("warm_order", "warm_oder"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("command", "shown"), STEPS, ids=[command for command, _ in STEPS])
def test_a_step_of_the_walk_through_shows_what_the_page_shows(command: str, shown: str) -> None:
    result = CliRunner().invoke(main, shlex.split(command))

    missing = [line for line in lines(shown) if line not in lines(result.stdout)]
    assert missing in ([], ["..."]), "the page leaves out lines"


def test_the_walk_through_has_four_steps() -> None:
    assert len(STEPS) == 4

"""The pages of figures are reproducible.

Their commands are valid in a shell, and their figures have a commit and a date.
"""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.__main__ import parser
from bench.publishing import write_pages

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(page for page in (DOCS / "performance").glob("*.md") if page.name != "README.md")


def commands(page: Path) -> list[str]:
    """Return the content of code spans and code blocks."""
    text = page.read_text(encoding="utf-8")
    blocks = [line for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    return blocks + re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("page", [DOCS / "performance/README.md", *PAGES], ids=lambda page: page.stem)
def test_a_shell_takes_every_code_span(page: Path) -> None:
    found = commands(page)
    assert found
    for command in found:
        subprocess.run(["bash", "-n", "-c", command], check=True)
        *python, program = shlex.split(command)[:3]
        assert (python, program) == (["python", "-m"], "bench")
        parser().parse_args(shlex.split(command)[3:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_is_of_one_clean_commit_and_has_its_date(page: Path) -> None:
    measured = r"^Measured at commit [0-9a-f]{7} on \d{4}-\d\d-\d\d"
    assert re.search(measured, page.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_pages_are_those_of_the_figures_that_are_kept(tmp_path: Path) -> None:
    (tmp_path / "performance").mkdir()
    for figures in (DOCS / "performance").glob("*.json"):
        shutil.copy(figures, tmp_path / "performance")
    write_pages(tmp_path)
    for page in [DOCS / "performance/README.md", *PAGES]:
        assert (tmp_path / page.relative_to(DOCS)).read_text(encoding="utf-8") == page.read_text(encoding="utf-8")

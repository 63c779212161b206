"""The site of docs/ is built without a warning, loads nothing from other servers, and has every page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# An image, script, style or frame that a browser fetches by itself.
LOADED = re.compile(r"<(?:img|script|iframe|link)\b[^>]*?\b(?:src|href)=\"?((?:https?:)?//[^\"\s>]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [Path(sys.executable).parent / "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert {page.with_name("index.html") if page.stem == "README" else page for page in pages} <= built


def test_a_page_loads_nothing_from_another_server(site: Path) -> None:
    foreign = {found for path in site.rglob("*.html") for found in LOADED.findall(path.read_text(encoding="utf-8"))}
    assert foreign == set()


def test_a_linked_file_outside_docs_is_in_the_site(site: Path) -> None:
    values = site / "source/charts/stoker/values.yaml"
    assert values.read_bytes() == (ROOT / "charts/stoker/values.yaml").read_bytes()
    assert 'href="../source/charts/stoker/values.yaml"' in (site / "operations/install.html").read_text("utf-8")

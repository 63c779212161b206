"""Diagrams of the docs site: Mermaid's script comes from its package, or diagrams stay code."""

import tarfile
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from tools import docs_diagrams

DIAGRAM = "```mermaid\nflowchart LR\n  a --> b\n```\n"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Name a script that does not exist yet, and put a folder for programs in front of the path."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(docs_diagrams, "SCRIPT", tmp_path / "mermaid.js")
    return docs_diagrams.SCRIPT


def pages(folder: Path) -> dict[str, str]:
    """Build a site of two pages, and return their HTML."""
    (folder / "docs" / "design").mkdir(parents=True)
    (folder / "docs" / "design" / "with.md").write_text(DIAGRAM)
    (folder / "docs" / "index.md").write_text("# Without\n")
    (folder / "mkdocs.yml").write_text("site_name: s\nuse_directory_urls: false\nplugins: []\n")
    config = load_config(str(folder / "mkdocs.yml"))
    config.markdown_extensions.append("pymdownx.superfences")
    for event in ("config", "files", "post_page"):
        config.plugins.events[event].append(getattr(docs_diagrams, f"on_{event}"))
    build(config)
    return {path.stem: path.read_text() for path in (folder / "site").rglob("*.html")}


def npm(folder: Path, content: bytes) -> None:
    """Install an npm whose package has this script."""
    with tarfile.open(folder / "package.tgz", "w:gz") as package:
        entry = tarfile.TarInfo("package/dist/mermaid.min.js")
        entry.size = len(content)
        package.addfile(entry, BytesIO(content))
    program = folder / "bin" / "npm"
    program.write_text(f"#!/bin/sh\n/bin/cp {folder}/package.tgz .\n")
    program.chmod(0o755)


def test_without_the_script_a_diagram_stays_code(script: Path, tmp_path: Path) -> None:
    built = pages(tmp_path)
    assert "flowchart" in built["with"]
    assert 'class="mermaid"' not in built["with"]


def test_only_a_page_with_a_diagram_loads_the_script_of_the_site(script: Path, tmp_path: Path) -> None:
    script.write_text("// Mermaid")
    built = pages(tmp_path)
    assert '<pre class="mermaid">' in built["with"]
    assert '<script src="../assets/mermaid.js">' in built["with"]
    assert "mermaid" not in built["index"]
    assert (tmp_path / "site/assets/mermaid.js").read_text() == "// Mermaid"


def test_the_script_of_the_package_is_kept(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm(tmp_path, b"right")
    monkeypatch.setattr(docs_diagrams, "SHA256", sha256(b"right").hexdigest())
    assert docs_diagrams.fetch() == ""
    assert script.read_bytes() == b"right"


def test_a_package_with_other_bytes_is_refused(script: Path, tmp_path: Path) -> None:
    npm(tmp_path, b"wrong")
    with pytest.raises(SystemExit, match="SHA-256"):
        docs_diagrams.fetch()
    assert not script.exists()


def test_without_npm_the_reason_is_returned(script: Path) -> None:
    assert "npm" in docs_diagrams.fetch()

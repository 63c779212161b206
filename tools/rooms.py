"""Writes docs/design/rooms.md, the list of packages, from the layers in .importlinter."""

import ast
import configparser
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "design" / "rooms.md"
_HEAD = """\
# Packages and their layers

<!-- Generated from .importlinter and the packages' docstrings by `make rooms`; do not edit. -->

A package imports only packages of lower layers (a larger number) of its container, and no package of its own layer.
import-linter checks this. A folder `core` holds pure decisions: no client, event loop, clock, or framework.
"""


def page() -> str:
    """Return the page: a section per layered container, with a line per package, the highest layer first."""
    sections = [(container, list(_rows(container, layers))) for container, layers in _containers()]
    return _HEAD + "".join(f"\n## {container}\n\n" + "\n".join(rows) + "\n" for container, rows in sections if rows)


def _containers() -> Iterator[tuple[str, list[str]]]:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    for section in contracts.values():
        if section.get("type") == "layers":
            for container in section["containers"].split():
                yield container, section["layers"].strip().splitlines()


def _rows(container: str, layers: list[str]) -> Iterator[str]:
    (folder,) = (path for path in ROOT.glob("*/" + container.replace(".", "/")) if path.is_dir())
    for number, layer in enumerate(layers, start=1):
        for name in re.split(r"\s*[|:]\s*", layer.strip()):
            init = folder / name / "__init__.py"
            if init.exists():
                yield f"- {number} `{name}`: {_content(init)}"


def _content(init: Path) -> str:
    return (ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or "").partition("\n")[0]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

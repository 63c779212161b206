"""Names and docstrings: class names are unique, file names of a room differ, docstrings say what a thing is."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("orders", "tuning", "plugins", "crds", "kube", "operator", "sidecar", "cli", "client")
SIDECAR = ROOT / "sidecar" / "stoker_sidecar"
HELPERS = SIDECAR / "helpers"  # each package of it is a process, so a room
ROOMS = sorted(
    path.parent for top in (SIDECAR, HELPERS) for path in top.glob("*/__init__.py") if path.parent != HELPERS
)
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def sources(*roots: str) -> Iterator[Path]:
    """Stoker's own Python files below the roots, without protoc's stubs."""
    for root in roots:
        yield from (path for path in sorted((ROOT / root).rglob("*.py")) if "pb" not in path.parts)


def nodes(path: Path) -> Iterator[ast.AST]:
    """Everything in a file."""
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def test_a_class_name_stands_once_in_the_distribution() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sources(*SOURCE_ROOTS):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_no_two_files_of_a_room_have_one_name(room: Path) -> None:
    names = [path.name for path in room.rglob("*.py") if path.name != "__init__.py"]
    assert sorted(names) == sorted(set(names))


def test_no_docstring_opens_with_a_parameter() -> None:
    guilty = []
    for path in sources(*SOURCE_ROOTS, "bench", "e2e", "examples", "tests", "tools"):
        for node in nodes(path):
            if isinstance(node, Documented) and (ast.get_docstring(node) or "").startswith("`"):
                guilty.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}")
    assert guilty == []

"""Any training image can import the package: old Python, no dependencies, fast import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from stoker_client import IndexSequence, batches

ROOT = Path(__file__).resolve().parents[3] / "client"
FILES = sorted((ROOT / "stoker_client").rglob("*.py"))
_IMPORTED = """
import sys
before = set(sys.modules)
import stoker_client, {modules}
for name in sorted({{name.partition(".")[0] for name in set(sys.modules) - before}} - sys.stdlib_module_names):
    print(name)
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_file_is_in_the_language_of_python_3_9(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 9))
    # Annotations use current syntax, so they must never be evaluated.
    assert "from __future__ import annotations" in text or "def " not in text


def test_importing_all_of_it_imports_the_standard_library_alone() -> None:
    paths = (path.relative_to(ROOT).with_suffix("") for path in FILES if path.stem != "__init__")
    modules = ", ".join(".".join(path.parts) for path in paths)
    command = [
        sys.executable,
        "-I",
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT)!r})" + _IMPORTED.format(modules=modules),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["stoker_client"]


def test_an_epoch_is_a_sequence_by_place() -> None:
    sequence = IndexSequence([5, 3, 4])
    assert (len(sequence), sequence[0], sequence[-1], sequence[1:]) == (3, 5, 4, [3, 4])
    assert list(sequence) == [5, 3, 4]
    with pytest.raises(IndexError):
        sequence[3]


def test_batches_are_of_one_size_but_for_the_last() -> None:
    assert list(batches(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(batches(range(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="size is 0"):
        list(batches(range(5), 0))

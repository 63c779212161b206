"""State files with any content."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_sidecar.volumes.mount_table import MountTable
from tests.unit.stoker_sidecar.volumes.test_mount_table import record

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
NAMES = ("request", "uid", "version", "folder", "files", "bytes", "mode", "fuse", "overlay", "later")
ASKED = ("volume_id", "target", "dataset_namespace", "pod_uid", "ephemeral", "version", "hints", "sampling", "later")


def loaded(wire: Any) -> set[str]:
    """Return the pods of a mount table with this content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mounts.json"
        path.write_text(json.dumps(wire))
        return {row.request.pod for row in MountTable(path).all()}


def table() -> dict[str, Any]:
    """Return the content of a table with two rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mounts.json"
        for pod in ("a", "b"):
            MountTable(path).put(record(pod))
        return dict(json.loads(path.read_text()))


@pytest.mark.expected_logs("is damaged")
@given(JSON)
def test_a_file_with_any_json_is_read(wire: Any) -> None:
    assert loaded(wire) == set()


@pytest.mark.expected_logs("is damaged")
@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(NAMES), JSON)), st.lists(st.tuples(st.sampled_from(ASKED), JSON)))
def test_no_value_of_a_row_costs_another_row(row: list[tuple[str, Any]], asked: list[tuple[str, Any]]) -> None:
    wire = table()
    wire["mounts"][0]["request"] |= dict(asked)
    wire["mounts"][0] |= dict(row)
    assert loaded(wire) >= {"b"}


@pytest.mark.expected_logs("is damaged")
@settings(max_examples=50)
@given(st.integers(0, 2000))
def test_a_file_that_is_cut_short_is_read(length: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mounts.json"
        path.write_text(json.dumps(table())[:length])
        assert {row.request.pod for row in MountTable(path).all()} <= {"a", "b"}

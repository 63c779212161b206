"""A manifest from a peer: its rows are taken, and nothing else counts."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker_sidecar.errors import ManifestInvalid
from stoker_sidecar.fetcher.datasets.given_manifests import rebuild
from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.manifest import ROOT_INO, Entry, Manifest, ManifestInfo
from stoker_sidecar.version.objects import ListedObject
from tests.support.cases import cases

_PATHS = st.lists(
    st.lists(st.sampled_from(["a", "a-", "b", "c.d"]), min_size=1, max_size=4).map("/".join), min_size=1, max_size=20
)


def _sent(folder: Path, *paths: str) -> ManifestInfo:
    with ManifestBuilder(folder / "sent") as builder:
        builder.add(
            ListedObject(path.encode(), 0 if path.endswith("/") else index, index * 10, f"etag-{index}")
            for index, path in enumerate(paths)
        )
        return builder.finish()


def _change(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "sent")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def _entries(path: Path) -> list[Entry]:
    manifest = Manifest.open(path)
    try:
        return list(manifest.entries())
    finally:
        manifest.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(paths=_PATHS, folders=st.lists(st.sampled_from(["e/", "a/e/", "f/g/"]), unique=True))
def test_a_rebuilt_manifest_equals_the_sent_one(tmp_path: Path, paths: list[str], folders: list[str]) -> None:
    info = _sent(tmp_path, "z", *paths, *folders)
    rebuilt = rebuild(tmp_path / "sent", tmp_path / "made", info.digest)
    assert (rebuilt.digest, rebuilt.files, rebuilt.bytes) == (info.digest, info.files, info.bytes)
    assert _entries(tmp_path / "made") == _entries(tmp_path / "sent")


def test_an_index_that_was_forged_leads_nowhere(tmp_path: Path) -> None:
    info = _sent(tmp_path, "a.bin", "b.bin")
    _change(
        tmp_path,
        "CREATE TABLE other AS SELECT ino, parent, CASE name WHEN CAST('a.bin' AS BLOB) THEN CAST('b.bin' AS BLOB) "
        "WHEN CAST('b.bin' AS BLOB) THEN CAST('a.bin' AS BLOB) ELSE name END AS name FROM entry",
        "CREATE UNIQUE INDEX forged ON other (parent, name)",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'forged') "
        "WHERE name = 'by_name'",
        "DELETE FROM sqlite_schema WHERE name IN ('forged', 'other')",
    )
    believed = Manifest.open(tmp_path / "sent").lookup(ROOT_INO, b"a.bin")
    assert believed is not None
    assert believed.etag == "etag-1"  # the forgery works: the row belongs to the other file
    rebuild(tmp_path / "sent", tmp_path / "made", info.digest)
    found = Manifest.open(tmp_path / "made").lookup(ROOT_INO, b"a.bin")
    assert found is not None
    assert found.etag == "etag-0"


@cases(
    "change",
    "UPDATE entry SET etag = 'x' WHERE ino = 3",
    "UPDATE entry SET size = 'many' WHERE ino = 3",
    "UPDATE entry SET size = -1 WHERE ino = 4",
    "UPDATE entry SET name = 'text' WHERE ino = 3",
    "UPDATE entry SET name = CAST('..' AS BLOB) WHERE ino = 3",
    "UPDATE entry SET name = CAST('x/y' AS BLOB) WHERE ino = 3",
    "UPDATE entry SET name = zeroblob(1000000) WHERE ino = 3",
    "UPDATE entry SET parent = 3 WHERE ino = 2",
    "DELETE FROM entry WHERE ino = 4",
    "DELETE FROM entry",
    "CREATE VIEW more AS SELECT 1",
    "CREATE TRIGGER more AFTER INSERT ON info BEGIN SELECT 1; END",
    "DROP INDEX by_name",
)
def test_what_was_changed_on_the_way_is_refused(tmp_path: Path, change: str) -> None:
    info = _sent(tmp_path, "a/b", "c", "d")
    _change(tmp_path, change)
    with pytest.raises(ManifestInvalid):
        rebuild(tmp_path / "sent", tmp_path / "made", info.digest)


@pytest.fixture
def small(tmp_path: Path) -> tuple[str, list[Entry], bytes]:
    """Return the digest, the entries and the bytes of a manifest."""
    info = _sent(tmp_path, "a/b", "c", "d/e/f")
    return info.digest, _entries(tmp_path / "sent"), (tmp_path / "sent").read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(offset=st.integers(0, 2**14), byte=st.integers(0, 255))
def test_a_changed_byte_never_makes_another_tree(
    small: tuple[str, list[Entry], bytes], tmp_path: Path, offset: int, byte: int
) -> None:
    digest, expected, sent = small
    body = bytearray(sent)
    body[offset % len(body)] = byte
    (tmp_path / "sent").write_bytes(body)
    try:
        rebuild(tmp_path / "sent", tmp_path / "made", digest)
    except ManifestInvalid:
        return
    assert _entries(tmp_path / "made") == expected

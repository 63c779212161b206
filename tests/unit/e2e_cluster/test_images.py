"""Image archives without a registry."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from e2e.cluster.errors import UsageError
from e2e.cluster.images import ImageStore, docker_archive, first_tag


def archive(folder: Path, name: str, tag: str, content: bytes = b"x") -> Path:
    file = folder / name
    file.write_bytes(docker_archive(tag, {"bin/a": content}, {"bin/b": "a"}, ["/bin/a"]))
    return file


def test_the_layers_digest_in_the_config_is_the_layers() -> None:
    with tarfile.open(fileobj=io.BytesIO(docker_archive("t:dev", {"bin/a": b"x"}, {}, ["/bin/a"]))) as tar:
        parts = {name: file.read() for name in tar.getnames() if (file := tar.extractfile(name))}
    config = json.loads(parts["config.json"])
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(parts["layer.tar"]).hexdigest()]


def test_a_newer_archive_takes_the_place_of_an_older_one_of_its_tag(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "kept")
    store.add(archive(tmp_path, "old.tar", "t:dev", b"old"))
    new = archive(tmp_path, "new.tar", "t:dev", b"new")
    store.add(new)
    assert [kept.read_bytes() for kept in store.archives()] == [new.read_bytes()]


def test_archives_of_two_tags_are_both_kept(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "kept")
    store.add(archive(tmp_path, "a.tar", "a:dev"))
    store.add(archive(tmp_path, "b.tar", "b:dev"))
    assert len(store.archives()) == 2


def test_an_archive_counts_as_held_until_its_file_is_replaced(tmp_path: Path) -> None:
    store, file = ImageStore(tmp_path / "kept"), archive(tmp_path, "a.tar", "a:dev")
    store.add(file)
    assert store.holds(file)
    archive(tmp_path, "draft", "a:dev", b"new").replace(file)
    assert not store.holds(file)


def test_a_file_that_is_no_archive_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_text("no")
    with pytest.raises(UsageError, match=r"x\.tar is not a docker-archive"):
        first_tag(tmp_path / "x.tar")

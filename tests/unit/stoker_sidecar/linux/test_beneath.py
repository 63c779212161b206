"""Root opens a file in another user's folder, and follows no link there."""

import errno
import os
from pathlib import Path

import pytest

from stoker_sidecar.linux import beneath, libc
from stoker_sidecar.linux.beneath import open_beneath, open_file_beneath


@pytest.fixture(params=["openat2", "step by step"], autouse=True)
def _kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(number: int, *arguments: object) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    if request.param != "openat2":
        monkeypatch.setattr(libc, "system_call", missing)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "cache"
    (made / "a").mkdir(parents=True)
    (made / "a" / "file").write_bytes(b"content")
    (tmp_path / "secret").write_bytes(b"of root alone")
    return made


def _content(root: Path, path: Path) -> bytes:
    descriptor = open_file_beneath(root, path)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _refused(root: Path, path: Path) -> int | None:
    with pytest.raises(OSError, match=r".") as caught:
        open_file_beneath(root, path)
    return caught.value.errno


def test_a_file_beneath_is_opened(root: Path) -> None:
    assert _content(root, root / "a" / "file") == b"content"


def test_the_way_to_the_root_may_hold_links(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert _content(tmp_path / "link", tmp_path / "link" / "a" / "file") == b"content"


def test_the_root_itself_is_opened(root: Path) -> None:
    descriptor = open_beneath(root, root, os.O_PATH | os.O_DIRECTORY)
    assert os.path.samestat(os.fstat(descriptor), root.stat())
    os.close(descriptor)


@pytest.mark.parametrize("target", ["../secret", "a/file", "/etc/hostname", "/proc/self/fd/0"])
def test_a_link_in_place_of_a_file_is_not_followed(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    assert _refused(root, root / "link") == errno.ELOOP


def test_a_link_in_place_of_a_folder_is_not_followed(root: Path) -> None:
    (root / "link").symlink_to("a")
    assert _refused(root, root / "link" / "file") in (errno.ELOOP, errno.ENOTDIR)


@pytest.mark.parametrize("path", ["../secret", "a/../../secret", "/etc/hostname"])
def test_what_does_not_lie_beneath_is_refused(root: Path, path: str) -> None:
    assert _refused(root, root / path) == errno.EINVAL


def test_a_pipe_is_refused_and_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert _refused(root, root / "pipe") == errno.EINVAL


def test_no_descriptor_is_left_open(root: Path) -> None:
    (root / "link").symlink_to("a")
    before = _open_descriptors()
    for path in (root / "a" / "file", root / "link" / "file", root / "a", root / "none"):
        try:
            os.close(beneath.open_file_beneath(root, path))
        except OSError:
            continue
    assert _open_descriptors() == before

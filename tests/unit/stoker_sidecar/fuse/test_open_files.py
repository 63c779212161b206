"""The bounded set of open files."""

import os
from pathlib import Path

import pytest

from stoker_sidecar.fuse.open_files import Descriptors


@pytest.fixture
def opened(tmp_path: Path) -> list[int]:
    """Return the descriptors that ``opener`` made, in order."""
    return []


def _opener(opened: list[int]) -> int:
    opened.append(os.open(os.devnull, os.O_RDONLY))
    return opened[-1]


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_kept_file_is_opened_once(opened: list[int]) -> None:
    descriptors = Descriptors(2)
    for _ in range(3):
        with descriptors.borrow("a", lambda: _opener(opened)):
            pass
    assert len(opened) == 1


def test_the_least_recently_used_goes_first(opened: list[int]) -> None:
    descriptors = Descriptors(2)
    for key in ("a", "b", "a", "c"):
        with descriptors.borrow(key, lambda: _opener(opened)):
            pass
    assert [_is_open(fd) for fd in opened] == [True, False, True]


def test_a_file_in_use_is_closed_only_after_its_reader(opened: list[int]) -> None:
    descriptors = Descriptors(1)
    with descriptors.borrow("a", lambda: _opener(opened)) as fd:
        with descriptors.borrow("b", lambda: _opener(opened)):
            pass
        assert _is_open(fd)
    assert not _is_open(opened[0])


def test_a_file_that_cannot_be_opened_is_tried_anew(opened: list[int]) -> None:
    descriptors = Descriptors(1)

    def fail() -> int:
        raise FileNotFoundError

    with pytest.raises(FileNotFoundError), descriptors.borrow("a", fail):
        pass
    with descriptors.borrow("a", lambda: _opener(opened)) as fd:
        assert _is_open(fd)


def test_close_closes_all(opened: list[int]) -> None:
    descriptors = Descriptors(3)
    for key in "abc":
        with descriptors.borrow(key, lambda: _opener(opened)):
            pass
    descriptors.close()
    assert not any(_is_open(fd) for fd in opened)

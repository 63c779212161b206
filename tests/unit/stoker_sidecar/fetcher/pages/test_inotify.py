"""The opening of a watched file is reported once, for any process. Files that cannot be watched are skipped."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_sidecar.fetcher.pages.inotify import OpeningWatch


@pytest.fixture
def watch() -> Iterator[OpeningWatch]:
    found = OpeningWatch()
    yield found
    found.close()


def files(folder: Path, count: int) -> list[Path]:
    found = [folder / str(number) for number in range(count)]
    for one in found:
        one.write_bytes(b"x")
    return found


def test_openings_are_told_in_their_order_and_once(watch: OpeningWatch, tmp_path: Path) -> None:
    names = files(tmp_path, 5)
    assert all(watch.add(str(name), number) for number, name in enumerate(names))
    for number in (3, 0, 3, 4):
        names[number].read_bytes()
    assert watch.opened() == [3, 0, 4]
    assert watch.opened() == []
    assert len(watch) == 2


def test_a_file_that_is_watched_keeps_its_number(watch: OpeningWatch, tmp_path: Path) -> None:
    (name,) = files(tmp_path, 1)
    assert watch.add(str(name), 1)
    assert not watch.add(str(name), 2)
    name.read_bytes()
    assert watch.opened() == [1]
    assert watch.add(str(name), 3)


def test_a_file_that_is_not_there_is_left_out(watch: OpeningWatch, tmp_path: Path) -> None:
    assert not watch.add(str(tmp_path / "absent"), 1)
    assert len(watch) == 0


def test_a_file_that_is_deleted_is_forgotten(watch: OpeningWatch, tmp_path: Path) -> None:
    (name,) = files(tmp_path, 1)
    watch.add(str(name), 1)
    name.unlink()
    assert watch.opened() == []
    assert len(watch) == 0


def test_more_openings_than_a_buffer_holds_are_told(watch: OpeningWatch, tmp_path: Path) -> None:
    names = files(tmp_path, 5000)
    for number, name in enumerate(names):
        watch.add(str(name), number)
    for name in names:
        name.open().close()
    assert watch.opened() == list(range(5000))


def test_it_may_be_closed_twice(watch: OpeningWatch) -> None:
    watch.close()
    watch.close()

"""The parts of the workloads that no machine is needed for."""

import hashlib
import os
from pathlib import Path
from typing import cast

import pytest

from bench.environment import Environment
from bench.objects import paths, write_objects
from bench.proxy import Link
from bench.readers import read_epoch
from bench.scale import SCALES, Corpus, sized
from bench.server import S3Server


def test_paths_fill_folder_after_folder() -> None:
    assert list(paths(Corpus(3, 1, 2))) == ["d0000/f0000000.bin", "d0000/f0000001.bin", "d0001/f0000002.bin"]


@pytest.mark.parametrize("size", [1, 16, 1000, 3 * 1024 * 1024 + 5])
def test_objects_have_the_size_that_was_asked_for(tmp_path: Path, size: int) -> None:
    corpus = Corpus(2, size, 1)
    write_objects(tmp_path, "p", corpus)
    assert [(tmp_path / "p" / path).stat().st_size for path in paths(corpus)] == [size, size]


def test_no_two_objects_are_alike(tmp_path: Path) -> None:
    corpus = Corpus(50, 100, 5)
    write_objects(tmp_path, "p", corpus)
    assert len({(tmp_path / "p" / path).read_bytes() for path in paths(corpus)}) == 50


def test_the_etag_of_an_object_is_its_md5(tmp_path: Path) -> None:
    corpus = Corpus(1, 1000, 1)
    write_objects(tmp_path, "p", corpus)
    target = tmp_path / "p" / next(paths(corpus))
    md5 = hashlib.md5(target.read_bytes(), usedforsecurity=False).hexdigest()
    assert os.getxattr(target, "user.etag").decode() == f'"{md5}"'


def test_all_readers_together_read_every_file_once(tmp_path: Path) -> None:
    corpus = Corpus(10, 2_000_000, 2)
    write_objects(tmp_path, "p", corpus)
    epoch = read_epoch(tmp_path / "p", list(paths(corpus)), 3, corpus.total_bytes)
    assert (epoch.files, epoch.bytes) == (10, corpus.total_bytes)


def test_a_line_without_a_limit_keeps_nothing_waiting() -> None:
    assert Link(0.0).wait(10**9, now=5.0) == 0.0


def test_pieces_queue_up_on_a_limited_line() -> None:
    link = Link(100.0)
    assert [link.wait(50, now=1.0), link.wait(50, now=1.0)] == [0.5, 1.0]


def test_a_quiet_line_saves_nothing_up() -> None:
    link = Link(100.0)
    link.wait(50, now=0.0)
    assert link.wait(50, now=100.0) == 0.5


def _turns(repeats: int, case_seconds: float) -> list[str]:
    env = Environment(cast(S3Server, None), Path(), sized(SCALES["quick"], repeats, case_seconds), lambda said: None)
    return list(env.turns("a case", ("a", "b", "c")))


def test_systems_take_turns_and_every_other_time_the_other_way_round() -> None:
    assert "".join(_turns(3, float("inf"))) == "abccbaabc"


def test_each_system_is_measured_once_at_least() -> None:
    assert _turns(3, 0.0) == ["a", "b", "c"]

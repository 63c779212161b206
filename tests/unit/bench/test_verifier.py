"""What verifying readers see of right, wrong and missing files, in whichever way they read."""

import random
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from bench.objects import paths, write_objects
from bench.scale import Corpus
from bench.verifier import Findings, Reader, verify
from bench.workloads.idle import more
from bench.workloads.partial import hits, off
from bench.workloads.storm import Kill, cause

CORPUS = Corpus(4, 40_000, 2)
CALLS = 200  # enough that each of 5 ways meets each of 4 files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_objects(tmp_path, "p", CORPUS)
    return tmp_path / "p"


def after(calls: int) -> Callable[[], bool]:
    numbers = count()
    return lambda: next(numbers) >= calls


def seen(folder: Path) -> Findings:
    chance = random.Random(1)
    return verify(Reader(str(folder), CORPUS, chance), CORPUS.files, chance, after(CALLS))


def test_right_files_give_nothing_to_complain_about(folder: Path) -> None:
    findings = seen(folder)
    assert (findings.reads, findings.failed, findings.wrong, findings.said) == (CALLS, 0, 0, [])


def test_a_flipped_byte_is_found(folder: Path) -> None:
    target = folder / next(paths(CORPUS))
    data = bytearray(target.read_bytes())
    data[20_000] ^= 1
    target.write_bytes(data)
    assert seen(folder).wrong > 0


def test_a_missing_file_fails(folder: Path) -> None:
    (folder / next(paths(CORPUS))).unlink()
    findings = seen(folder)
    assert findings.failed > 0
    assert "No such file" in findings.said[0]


def test_verdicts_of_readers_add_up() -> None:
    findings = Findings(1, 1, 0, 0.5, 10.0, ["a", "b"])
    findings.add(Findings(2, 0, 1, 0.2, 20.0, ["c", "d"]))
    assert findings == Findings(3, 1, 1, 0.5, 10.0, ["a", "b", "c"])


def test_files_that_cost_no_get_are_hits() -> None:
    assert hits(gets=25, files=100) == 75.0


@pytest.mark.parametrize("share", [0.51, 0.49])
def test_a_share_is_off_in_either_direction(share: float) -> None:
    assert off(share, 0.5) == pytest.approx(2.0)


def test_a_stall_follows_the_last_kill_before_its_end() -> None:
    kills = [Kill("agent", 1.0), Kill("fetcher", 2.0), Kill("worker", 9.0)]
    assert cause(kills, 2.5) == "fetcher"


def test_a_stall_before_every_kill_has_another_cause() -> None:
    assert cause([Kill("agent", 5.0)], 1.0) == ""


def test_what_a_sidecar_does_anyway_is_no_cost_of_readers() -> None:
    assert more(used=0.4, seconds=20.0, quiet=(0.1, 0.2), wait=10.0) == 0.0


def test_what_goes_beyond_is_the_cost_of_readers() -> None:
    assert more(used=1.0, seconds=20.0, quiet=(0.1, 0.2), wait=10.0) == pytest.approx(0.6)

"""Files that no reader can read within its limits are remembered."""

from pathlib import Path

import pytest

from stoker_orders.sampling_plan import SampleLayout
from stoker_sidecar.agent.questions.reading.read_failures import MOST, ReadFailures
from stoker_sidecar.wire.reader_protocol import LayoutQuestion, MapQuestion, SampleFilesText


def question(folder: str = "/cache/v", most: int = 9) -> MapQuestion:
    return MapQuestion(folder, 8, SampleFilesText(SampleLayout.SHARDS, "", 1, 0, 0, "index.json"), most)


def test_the_next_agent_knows_a_lasting_failure_and_no_other(tmp_path: Path) -> None:
    failures = ReadFailures(tmp_path / "failures.json")
    failures.remember(question(), "it takes too much memory", lasting=True)
    failures.remember(LayoutQuestion("/cache/v", 8, False), "its reader was ended", lasting=False)
    after = ReadFailures(tmp_path / "failures.json")
    assert after.why(question(most=3)) == "it takes too much memory"
    assert after.why(LayoutQuestion("/cache/v", 8, False)) == ""
    assert failures.why(LayoutQuestion("/cache/v", 8, False)) == "its reader was ended"


def test_another_version_is_another_question() -> None:
    failures = ReadFailures()
    failures.remember(question(), "wrong", lasting=True)
    assert failures.why(question("/cache/w")) == ""


def test_the_oldest_is_forgotten_beyond_the_bound(tmp_path: Path) -> None:
    failures = ReadFailures(tmp_path / "failures.json")
    for number in range(MOST + 1):
        failures.remember(question(f"/cache/{number}"), "wrong", lasting=True)
    assert [failures.why(question(f"/cache/{number}")) for number in (0, 1)] == ["", "wrong"]
    assert ReadFailures(tmp_path / "failures.json").why(question(f"/cache/{MOST}")) == "wrong"


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"a": 1}', b'{"a": "', b"\xff"])
@pytest.mark.expected_logs("failed reads of an earlier agent are forgotten")
def test_a_damaged_file_is_no_failure(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "failures.json").write_bytes(content)
    assert ReadFailures(tmp_path / "failures.json").why(question()) == ""

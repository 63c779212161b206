"""The closing words of the demo."""

import pytest

from examples.demo.story import PodStory, lines, report_of

REPORT = {"rank": 1, "world": 2, "files": 1797, "bytes": 2**20, "readSeconds": 0.5, "accuracy": 0.975}


def test_the_report_is_the_last_json_line_of_the_log() -> None:
    assert report_of('epoch 1/6\n{"rank": 0}\nbye\n') == {"rank": 0}


def test_a_log_without_a_report_is_an_error() -> None:
    with pytest.raises(ValueError, match="no report"):
        report_of("Traceback ...")


def test_every_pod_tells_its_placement_its_reading_and_its_accuracy() -> None:
    told = " ".join(lines([PodStory({"pod": "n/p", "explanation": ["It landed on node-1."]}, REPORT)]))
    for part in ("pod n/p", "landed on node-1", "3,594 files/s", "2.0 MiB/s", "worker 2 of 2", "97.5%"):
        assert part in told

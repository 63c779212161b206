"""The figures that the demo prints."""

import pytest

from examples.demo.figures import Epoch, Verification, condition, report_of, table, warm_nodes, without_events

COLD = Epoch.of("cold", "cold", {"photos": 2000, "seconds": 50.0, "waited": 35.0}, held=0)
WARM = Epoch.of("warm", "photos", {"photos": 2000, "seconds": 12.5, "waited": 0.0}, held=6.4)


def test_the_report_is_the_last_json_line_of_the_log() -> None:
    assert report_of('  8 of 9 photos\n{"photos": 9}\nbye\n') == {"photos": 9}


def test_a_log_without_a_report_is_an_error() -> None:
    with pytest.raises(ValueError, match="no report"):
        report_of("Traceback ...")


def test_the_table_compares_each_epoch_with_the_first_in_aligned_columns() -> None:
    lines = table([COLD, WARM])
    assert [line.split() for line in lines[1:]] == [
        ["cold", "40.0", "70%", "50.0", "s", "1.0x", "0", "s"],
        ["warm", "160.0", "0%", "12.5", "s", "4.0x", "6", "s"],
    ]
    assert len({len(line) for line in lines}) == 1


def test_readers_are_added_up_and_their_worst_stall_is_the_longest() -> None:
    reports = [
        {"reads": 1500, "wrong": 1, "errors": 0, "worst_ms": 80.2},
        {"reads": 500, "wrong": 0, "errors": 2, "worst_ms": 830.4},
    ]
    sentence = Verification.of(reports).sentence()
    assert sentence == "2,000 reads verified: 1 with wrong bytes, 2 errors, worst stall 830 ms."


def test_an_answer_is_shown_without_its_events() -> None:
    assert without_events("pod n/p: Held\n  It is held: x\n\nTIME  REASON\n...\n") == "pod n/p: Held\n  It is held: x"


def test_statuses_that_are_not_there_yet_are_empty() -> None:
    assert (condition({}, "Moving"), warm_nodes({})) == ("", [])


def test_a_condition_and_the_warm_nodes_are_found() -> None:
    status = {
        "conditions": [{"type": "Order", "status": "False"}],
        "nodes": [{"name": "node-2", "phase": "Warm"}, {"name": "node-1", "phase": "Warming"}],
    }
    assert (condition({"status": status}, "Order"), warm_nodes({"status": status})) == ("False", ["node-2"])

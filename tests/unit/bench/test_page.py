"""Benchmark pages for given figures."""

from dataclasses import replace

from bench.page import index, workload_page
from bench.report import Report, Row
from bench.tables import cost_in_words
from bench.targets import Reason, Target, Verdict
from tests.support.cases import cases
from tests.unit.bench.test_report import COST, IDLE, ORIGIN, REPORT

TARGET = Target("b1", "B1", "as fast as the disk", 0.95, True, "files/s", of_ratio=True)
MISSED = Verdict(TARGET, 0.5, "1 reader")
MET = Verdict(TARGET, 0.96, "1 reader")


def page(*verdicts: Verdict, report: Report = REPORT, **reasons: Reason) -> str:
    return workload_page("B1", report, verdicts, reasons)


def test_the_page_has_a_line_for_each_row() -> None:
    words = cost_in_words([COST])
    line = f"| 1 reader | Stoker native | 950 | files/s | 1 | 0.95 x native | {words} | read-only |"
    assert line in page().splitlines()


def test_what_else_must_be_known_of_a_run_stands_on_the_page() -> None:
    assert "At most 4 s a case." in page(report=replace(REPORT, origin=replace(ORIGIN, remark="At most 4 s a case.")))


def test_the_page_says_that_others_had_the_processor_too() -> None:
    busy = replace(REPORT, machine=replace(IDLE, load_before=5.0))
    assert "busy with other work (load average 5.0" in page(report=busy)


def test_a_target_that_is_met_is_said_to_be() -> None:
    assert "| as fast as the disk | >= 0.95 x | 0.96 (1 reader) | yes |  |" in page(MET).splitlines()


def test_a_target_that_is_met_needs_no_reason() -> None:
    assert "slow disk" not in page(MET, b1=Reason("A slow disk.", "Another."))


@cases(
    "words, text",
    the_command_that_measures_it_again=("```sh\npython -m bench run B1\n```", page()),
    at_which_commit_and_when=("Measured at commit 0123456 on 2026-11-22", page()),
    that_the_machine_was_idle=("idle before the run", page()),
    why_a_target_is_missed=(
        "| **no** | A slow disk. Another disk. |",
        page(MISSED, b1=Reason("A slow disk.", "Another disk.")),
    ),
    that_nobody_explained_it=("| **no** | not explained yet |", page(MISSED)),
    that_a_target_was_not_measured=("|  | **no** (not measured) |  |", page(Verdict(TARGET, None, ""))),
)
def test_the_page_says(words: str, text: str) -> None:
    assert words in text


def test_the_index_has_a_row_for_a_target_whose_workload_was_not_run() -> None:
    unmeasured = Verdict(replace(TARGET, workload="phases"), None, "")
    text = index({"B1": REPORT}, [MET, unmeasured])
    assert "| phases | as fast as the disk | >= 0.95 x |  | **no** (not measured) |  |  |" in text.splitlines()
    assert "1 of 2 targets are met; 1 were not measured" in text


def test_the_picture_stands_with_the_training() -> None:
    rows = (Row("gpus", "1 GPU, epoch 1", "native", "images/s", (1.0,)),)
    text = workload_page("gpus", Report(ORIGIN, IDLE, rows), [], {}, "../img/gpus.svg")
    assert "](../img/gpus.svg)" in text.partition("## Figures")[2]


def test_the_index_links_each_target_to_its_page_with_commit_and_day() -> None:
    measured = "as fast as the disk | >= 0.95 x | 0.50 (1 reader) | **no**"
    line = f"| [B1](B1.md) | {measured} | commit 0123456 | 2026-11-22 |"
    assert line in index({"B1": REPORT}, [MISSED]).splitlines()


def test_the_index_links_each_workload() -> None:
    title = "[B1: small files read by training epochs](B1.md)"
    assert f"| {title} | commit 0123456 | 2026-11-22 | default | 0.1 |" in index({"B1": REPORT}, []).splitlines()

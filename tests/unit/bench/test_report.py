"""Benchmark tables for given rows."""

from bench.report import Cost, Machine, Origin, Report, Row, by_workload, from_json, ratio, to_json
from bench.tables import commit_in_words, cost_in_words, measured_at, number, spread, table
from tests.support.cases import cases

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ORIGIN = Origin("python -m bench run B1", COMMIT, dirty=False, date="2026-11-22T03:04:05Z", scale="default")
IDLE = Machine("6.18.44", 2, 24, "3.11.7", "ext4", load_before=0.1)
NATIVE = Row("B1", "1 reader", "native", "files/s", (1000.0, 800.0, 1200.0), "native")
COST = Cost(cpu=1.5, server_cpu=0.5, gets=1000, sent=2_000_000, peak_rss=206_000_000)
OURS = Row("B1", "1 reader", "Stoker native", "files/s", (950.0,), "native", "read-only", (COST,))
REPORT = Report(ORIGIN, IDLE, (NATIVE, OURS))


@cases(
    "value, text",
    (0, "0"),
    (0.123, "0.12"),
    (9.999, "10.0"),
    (12.34, "12.3"),
    (99.96, "100"),
    (1234.5, "1,234"),
    (2e6, "2,000,000"),
)
def test_numbers_have_three_digits_and_no_more(value: float, text: str) -> None:
    assert number(value) == text


def test_several_samples_show_their_median_between_the_extremes() -> None:
    assert spread((3.0, 1.0, 20.0)) == "3.00 (1.00-20.0)"


def test_a_single_sample_has_no_spread() -> None:
    assert spread((3.0,)) == "3.00"


def test_a_ratio_is_between_medians_of_one_case() -> None:
    assert ratio(OURS, [NATIVE, OURS]) == 0.95


def test_the_reference_itself_has_no_ratio() -> None:
    assert ratio(NATIVE, [NATIVE, OURS]) is None


def test_a_reference_of_another_case_is_not_compared_with() -> None:
    other = Row("B1", "4 readers", "native", "files/s", (1.0,), "native")
    assert ratio(OURS, [other, OURS]) is None


def test_a_reference_of_another_unit_is_not_compared_with() -> None:
    other = Row("B1", "1 reader", "native", "CPU s", (1.0,), "native")
    assert ratio(OURS, [other, OURS]) is None


def test_the_table_stands_in_columns() -> None:
    lines = [line for line in table(REPORT).splitlines() if "1 reader" in line]
    assert [line.index("files/s") for line in lines] == [lines[0].index("files/s")] * 2


def test_json_keeps_every_sample() -> None:
    assert from_json(to_json(REPORT)) == REPORT


def test_a_run_of_two_workloads_is_a_report_of_each() -> None:
    other = Row("B5", "walk", "native", "entries/s", (5.0,), "native")
    parts = by_workload(Report(ORIGIN, IDLE, (NATIVE, other)))
    assert parts == {"B1": Report(ORIGIN, IDLE, (NATIVE,)), "B5": Report(ORIGIN, IDLE, (other,))}


def test_runs_of_which_only_the_extremes_are_known_count_all_the_same() -> None:
    assert Row("B1", "", "", "", (1.0, 2.0, 3.0), of_runs=7).runs == 7


def test_costs_are_told_as_medians() -> None:
    costs = [COST, Cost(0.5, 0.1, 900, 1_000_000, 100_000_000), Cost(2.5, 0.9, 1100, 3_000_000, 300_000_000)]
    assert cost_in_words(costs) == "CPU 1.50 s, server 0.50 s; 1,000 GETs, 2.00 MB, 206 MB RSS"


def test_a_cost_without_a_process_has_no_memory() -> None:
    assert "RSS" not in cost_in_words([Cost(0.0, 0.5, 1, 1, 0)])


def test_commit_and_moment_are_told_for_people() -> None:
    assert measured_at(ORIGIN) == "Measured at commit 0123456 on 2026-11-22, 03:04:05 UTC, scale default"


def test_changes_that_are_in_no_commit_are_told() -> None:
    dirty = Origin("", COMMIT, dirty=True, date="", scale="")
    assert commit_in_words(dirty) == "commit 0123456 with changes that are in no commit"


def test_an_unknown_commit_is_called_so() -> None:
    assert commit_in_words(Origin("", "", dirty=False, date="", scale="")) == "an unknown commit"

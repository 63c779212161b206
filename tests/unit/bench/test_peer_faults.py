"""What pairs of runs with faulty peers come to."""

from collections import Counter

from bench.faulty_peers import FaultyRun
from bench.peer_faults import Pair, Summary
from bench.report import Row, ratio
from bench.targets import judge
from bench.workloads.faults import rows

GOOD = FaultyRun(10.0, 100, 0, Counter(), [], [], 50)
BAD = FaultyRun(15.0, 150, 3, Counter({"stall": 4, "died": 1}), [], [], 60)


def met(found: list[Row]) -> dict[str, bool | None]:
    return {one.target.key: one.met for one in judge(found) if one.target.workload == "faults"}


def test_it_counts_faults_and_reads_and_compares_times() -> None:
    found = list(rows(Summary((Pair(GOOD, BAD), Pair(GOOD, BAD)), 100)))
    told = {(row.system, row.unit): row for row in found}
    faults, failed = told["Stoker", "faults"], told["Stoker", "failed reads"]
    assert (faults.median, faults.note, failed.note) == (10, "8 stall, 2 died", "of 220")
    assert ratio(told["Stoker", "s until all have it"], found) == 1.5
    assert told["Stoker", "x the data sent by the source"].median == 1.5
    assert all(met(found).values())


def test_a_wrong_file_or_read_or_a_run_without_an_end_misses_its_target() -> None:
    wrong = FaultyRun(15.0, 150, 3, Counter(), ["a"], [], 60)
    failed = FaultyRun(15.0, 150, 3, Counter(), [], ["a"], 60)
    assert met(list(rows(Summary((Pair(GOOD, wrong),), 100))))["faults-wrong"] is False
    assert met(list(rows(Summary((Pair(failed, BAD),), 100))))["faults-failed"] is False
    assert met(list(rows(Summary((), 100, over=1))))["faults-end"] is False

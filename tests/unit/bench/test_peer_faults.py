"""What a run of faulty peers tells of the pairs that were ended, also where it was cut."""

import json
from collections import Counter

from bench.faulty_peers import FaultyRun
from bench.peer_faults import Pair, Summary

GOOD = FaultyRun(10.0, 100, 0, Counter(), [], [], 50)
BAD = FaultyRun(15.0, 150, 3, Counter({"stall": 4, "died": 1}), [], [], 60)


def test_it_counts_faults_and_reads_and_compares_times() -> None:
    summary = Summary((Pair(GOOD, BAD), Pair(GOOD, BAD)))
    told = json.loads(summary.json())
    assert (told["faults"], told["kinds"], told["reads"]) == (10, {"stall": 8, "died": 2}, 220)
    assert [one["ratio"] for one in told["seconds"]] == [1.5, 1.5]
    assert summary.is_good


def test_a_wrong_file_or_read_or_a_run_without_an_end_is_no_success() -> None:
    wrong = FaultyRun(15.0, 150, 3, Counter(), ["a"], [], 60)
    failed = FaultyRun(15.0, 150, 3, Counter(), [], ["a"], 60)
    assert not Summary((Pair(GOOD, wrong),)).is_good
    assert not Summary((Pair(failed, BAD),)).is_good
    assert not Summary((), over=1).is_good


def test_nothing_ended_says_so() -> None:
    assert Summary(()).lines()[1] == "0 wrong files, 0 failed of 0 reads; no pair was ended"

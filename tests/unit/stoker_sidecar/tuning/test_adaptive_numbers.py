"""Which numbers may be found, from where on and within which bounds, and what follows for files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.core.lanes import Bounds
from stoker_sidecar.fetcher.download import parts
from stoker_sidecar.fetcher.download.policy import chunks_ahead
from stoker_sidecar.tuning.core.adaptive_numbers import (
    CHUNK,
    DEPTH,
    MOST_AHEAD,
    NOTHING_FREE,
    SIZE,
    AdaptiveFiles,
    FreeNumbers,
    number_to_find,
    start_of,
    with_numbers,
)
from stoker_sidecar.tuning.core.grouping import CompiledChoice, FileGrouping
from stoker_sidecar.tuning.source import TuningChoice
from stoker_sidecar.wire.fetcher_protocol import FileKnobs
from stoker_tuning.documents.assembly import read_profile
from stoker_tuning.recommend.knobs import MIB
from stoker_tuning.rules.facts import Surroundings
from stoker_tuning.vocabulary import OptimizationLevel

ADAPTIVE = "strategy: Adaptive"
ALL = FreeNumbers(size=True, depth=True, streams=True)


def adaptive_files(rules: str, settings: str = "", size: int = 100 * MIB) -> AdaptiveFiles | None:
    """Return what may be found of one file, of a profile with these rules and settings."""
    document = f"""{{apiVersion: stoker.dev/v1alpha1, kind: TuningProfile, metadata: {{name: mine}},
        spec: {{settings: {{{settings}}}, rules: [{rules}]}}}}"""
    read = read_profile(document)
    choice = TuningChoice(read.rules, "mine", 1, learns=read.metrics_collection, adapts=read.auto_tuning)
    grouping = FileGrouping(CompiledChoice(choice), [Surroundings()])
    grouping.number("a.bin", size)
    return grouping.adaptive


def rule(*actions: str, name: str = "one") -> str:
    return f"{{id: {name}, actions: [{', '.join(actions)}]}}"


def prefetch(parameters: str) -> str:
    return f"{{type: prefetch, parameters: {{{parameters}}}}}"


STREAMS = "{type: stream, parameters: {parallel_streams: 3}}"


def test_nothing_is_found_where_nobody_asks_for_it() -> None:
    assert adaptive_files("") is None
    assert adaptive_files(rule(prefetch("prefetch_size: 8Mi"))) is None


def test_without_a_figure_the_search_begins_where_the_fetcher_comes_to_by_itself() -> None:
    found = adaptive_files("", ADAPTIVE)

    assert found == AdaptiveFiles(100 * MIB, 0, {SIZE: 32 * MIB, DEPTH: 128})


def test_a_figure_of_the_rule_that_asks_for_adaptive_is_where_the_search_begins() -> None:
    found = adaptive_files(rule(prefetch(f"prefetch_size: 64Ki, {ADAPTIVE}")))

    assert found is not None
    assert found.starts[SIZE] == 8 * MIB  # whole chunks


def test_requests_at_a_time_of_that_rule_are_part_of_the_beginning() -> None:
    found = adaptive_files(rule(prefetch(ADAPTIVE), STREAMS))

    assert found is not None
    assert found.starts[SIZE] == 16 * MIB


def test_a_figure_of_another_rule_is_somebodys_word() -> None:
    found = adaptive_files(rule(prefetch("prefetch_size: 16Mi")), ADAPTIVE)

    assert found is not None
    assert set(found.starts) == {DEPTH}


@pytest.mark.parametrize("switch", ["auto_tuning: false", "metrics_collection: false"])
def test_a_profile_turns_it_off(switch: str) -> None:
    assert adaptive_files("", f"{ADAPTIVE}, {switch}") is None


def test_bytes_of_large_and_of_small_files_are_told_apart() -> None:
    found = adaptive_files("", ADAPTIVE, size=CHUNK)

    assert found is not None
    assert (found.large_bytes, found.small_bytes) == (0, CHUNK)


def test_the_chunks_and_the_most_are_those_of_the_fetcher() -> None:
    assert (parts.CHUNK, Bounds().readahead_bytes) == (CHUNK, MOST_AHEAD)


@given(st.one_of(st.none(), st.integers(0, 2**30)), st.one_of(st.none(), st.integers(1, 64)))
def test_the_beginning_is_what_the_fetcher_does_with_such_knobs(ahead: int | None, streams: int | None) -> None:
    knobs = FileKnobs(ahead_bytes=ahead, streams=streams)
    chunks = chunks_ahead(knobs, MOST_AHEAD)

    assert start_of(knobs, ALL)[SIZE] == (32 * MIB if chunks is None else chunks * CHUNK)


def test_a_number_takes_the_place_of_what_the_files_have_where_it_is_free() -> None:
    knobs = (FileKnobs(ahead_bytes=CHUNK, streams=2), FileKnobs(ahead_bytes=CHUNK, streams=2, weight=8))

    found = with_numbers(knobs, (NOTHING_FREE, ALL), ((SIZE, float(4 * CHUNK)),))

    assert found == (knobs[0], FileKnobs(ahead_bytes=4 * CHUNK, weight=8))


def test_without_a_number_all_is_as_rules_have_it() -> None:
    knobs = (FileKnobs(), FileKnobs(ahead_files=7))

    assert with_numbers(knobs, (ALL, ALL), ()) == knobs


@pytest.mark.parametrize(
    ("files", "most", "expected"),
    [
        (AdaptiveFiles(100, 10, {SIZE: 1.0, DEPTH: 1.0}), None, (SIZE, CHUNK, 64 * MIB)),
        (AdaptiveFiles(100, 10, {SIZE: 1.0, DEPTH: 1.0}), OptimizationLevel.BALANCED, (SIZE, CHUNK, 48 * MIB)),
        (AdaptiveFiles(10, 100, {SIZE: 1.0, DEPTH: 1.0}), None, (DEPTH, 4, 4096)),
        (AdaptiveFiles(10, 100, {SIZE: 1.0, DEPTH: 1.0}), OptimizationLevel.BASIC, (DEPTH, 4, 64)),
        (AdaptiveFiles(100, 10, {DEPTH: 1.0}), None, (DEPTH, 4, 4096)),
        (AdaptiveFiles(100, 0, {DEPTH: 1.0}), None, None),
    ],
)
def test_the_number_that_counts_for_most_bytes_is_looked_for_within_what_is_allowed(
    files: AdaptiveFiles, most: OptimizationLevel | None, expected: tuple[str, float, float] | None
) -> None:
    knob = number_to_find(files, most)

    assert expected == (None if knob is None else (knob.name, knob.least, knob.most))

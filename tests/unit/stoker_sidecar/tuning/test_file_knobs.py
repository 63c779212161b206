"""The knobs from a recommendation. Without a rule, nothing changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.download.policy import most_chunks
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.sources.core.lanes import Bounds
from stoker_sidecar.fetcher.sources.core.readahead import MOST_FILES
from stoker_sidecar.linux.mounts.fuse_device import READ_AHEAD
from stoker_sidecar.tuning.core.file_knobs import ADAPTIVE, file_knobs, kernel_read_ahead, merged
from stoker_sidecar.wire.fetcher_hints import FileKnobs, PackingKnobs
from stoker_tuning.documents.named_sets import named_sets
from stoker_tuning.recommend.knobs import AUTO, MIB
from stoker_tuning.recommend.recommendation import Explained, recommend
from stoker_tuning.rules.merging import GivenValue
from stoker_tuning.rules.spec import ActionSpec, KnobValue, RuleOrigin, RuleSpec
from stoker_tuning.vocabulary import ActionTarget, ActionType, OptimizationLevel, RuleLayer, Split
from tests.support.cases import cases

RULE = RuleSpec("rule", RuleOrigin("test", RuleLayer.CUSTOM), (), ())
AS_EVER = FileKnobs()
BASIC = FileKnobs(0, 0, 1, divided=False, foreseen=False, ordered=False, reused=False)


def _knobs(
    given: dict[str, KnobValue],
    most: OptimizationLevel | None = None,
    split: Split = Split.UNKNOWN,
) -> FileKnobs:
    return file_knobs(_explained(given), most, split)


def _explained(given: dict[str, KnobValue]) -> Explained:
    action = ActionSpec(ActionType.PREFETCH, ActionTarget.FILE, given)
    values = {name: GivenValue(value, RULE, action) for name, value in given.items()}
    return recommend(values, named_sets())


@pytest.mark.parametrize("given", [{}, {"level": "Balanced"}])
def test_the_level_balanced_is_the_default(given: dict[str, KnobValue]) -> None:
    assert _knobs(given) == AS_EVER
    assert kernel_read_ahead(_explained(given)) == READ_AHEAD


def test_adaptive_figures_can_be_asked_for() -> None:
    assert _knobs(dict.fromkeys(("prefetch_size", "prefetch_depth", "parallel_streams"), AUTO)) == AS_EVER


@pytest.mark.parametrize("field", ["ahead_bytes", "ahead_files", "streams", "divided", "foreseen", "ordered", "reused"])
def test_the_level_basic_switches_each_optimization_off(field: str) -> None:
    basic, balanced = _knobs({"level": "Basic"}), _knobs({"level": "Balanced"})
    assert getattr(basic, field) == getattr(BASIC, field) != getattr(balanced, field)


def test_the_fetcher_comes_to_these_figures_by_itself() -> None:
    chunks = most_chunks(Bounds().readahead_bytes)
    assert (ADAPTIVE.size, ADAPTIVE.files, ADAPTIVE.streams) == (chunks * CHUNK, MOST_FILES, chunks + 1)
    assert ADAPTIVE.kernel == READ_AHEAD


@pytest.mark.parametrize(
    ("given", "knobs"),
    [
        ({"prefetch_size": 0}, FileKnobs(ahead_bytes=0)),
        ({"prefetch_size": 64 * MIB}, FileKnobs(ahead_bytes=64 * MIB)),
        ({"prefetch_depth": 3}, FileKnobs(ahead_files=3)),
        ({"parallel_streams": 2}, FileKnobs(streams=2)),
        ({"warm_order": "first"}, FileKnobs(warm_rank=0)),
        ({"warm_order": "late"}, FileKnobs(warm_rank=3)),
        ({"should_cache": False}, FileKnobs(cached=False)),
        ({"compression": "on"}, FileKnobs(packing=PackingKnobs(3, 1.5, tried=False))),
        ({"compression": "auto", "compression_level": 9, "min_ratio": 2}, FileKnobs(packing=PackingKnobs(9, 2))),
        ({"compression": "off", "compression_level": 9}, AS_EVER),
        ({"compression_level": 9, "min_ratio": 2}, AS_EVER),  # only `compression` enables it
        ({"divide_cold": True}, AS_EVER),
        ({"divide_cold": False}, FileKnobs(divided=False)),
        ({"cache_policy": "ML"}, AS_EVER),
        ({"lane_weight": 8}, FileKnobs(weight=8)),
        ({"lane_weight": 100}, FileKnobs(weight=64)),
        ({"lane_weight": 4}, AS_EVER),
        ({"bandwidth_share": 0.253}, FileKnobs(bandwidth=0.25)),
        ({"bandwidth_share": 0.01}, FileKnobs(bandwidth=0.01)),
        ({"bandwidth_share": 1}, AS_EVER),
        ({"page_cache_prefetch": True}, FileKnobs(paged=True)),
        ({"page_cache_prefetch": False}, FileKnobs(foreseen=False)),
        ({"known_order": False}, FileKnobs(foreseen=False, ordered=False)),
        ({"cache_policy": "LRU"}, FileKnobs(reused=False)),
    ],
)
def test_what_a_rule_gives_is_taken_as_it_is(given: dict[str, KnobValue], knobs: FileKnobs) -> None:
    assert _knobs(given) == knobs


@cases(
    "given, knobs",
    ({"level": "Basic"}, BASIC),
    ({"level": "Aggressive"}, FileKnobs(streams=8)),
    ({"level": "Maximum"}, FileKnobs(streams=16)),
    ({"strategy": "Conservative"}, FileKnobs(ahead_files=8)),
    ({"strategy": "Adaptive"}, AS_EVER),
    ({"strategy": "Aggressive"}, FileKnobs(ahead_files=512)),
    ({"cache_priority": "Urgent"}, FileKnobs(warm_rank=0, weight=16, keep=3)),
    ({"cache_priority": "Low"}, FileKnobs(warm_rank=3, weight=1, keep=0)),
    ({"cache_policy": "None"}, FileKnobs(warm_rank=3, cached=False, weight=1, keep=0, reused=False)),
)
def test_the_values_of_a_named_set_apply_as_written(given: dict[str, KnobValue], knobs: FileKnobs) -> None:
    assert _knobs(given) == knobs


@pytest.mark.parametrize("most", list(OptimizationLevel))
def test_a_class_bounds_what_rules_ask_for_and_never_below_what_is_as_ever(most: OptimizationLevel) -> None:
    found = _knobs({"prefetch_size": 2**30, "prefetch_depth": 4096, "parallel_streams": 64}, most=most)
    bounded = (found.ahead_bytes or 0) < 2**30
    assert bounded == (most is not OptimizationLevel.MAXIMUM)
    assert (found.ahead_bytes or 0) >= ADAPTIVE.size
    assert (found.ahead_files or 0) >= ADAPTIVE.files
    assert (found.streams or 0) >= ADAPTIVE.streams


@cases(
    "given, split, unasked",
    ({"validation_ahead": True}, Split.VALIDATION, True),
    ({"validation_ahead": True}, Split.TRAIN, False),
    ({"validation_ahead": False}, Split.VALIDATION, False),
    ({}, Split.VALIDATION, False),
    ({"validation_ahead": True, "split": "validation"}, Split.UNKNOWN, True),
    ({"validation_ahead": True, "split": "test"}, Split.VALIDATION, False),
)
def test_validation_files_alone_come_unasked(given: dict[str, KnobValue], split: Split, unasked: bool) -> None:
    assert _knobs(given, split=split).unasked == unasked


_KNOBS = st.builds(
    FileKnobs,
    ahead_bytes=st.none() | st.integers(0, 2**30),
    ahead_files=st.none() | st.integers(0, 4096),
    streams=st.none() | st.integers(1, 64),
    warm_rank=st.integers(0, 3),
    cached=st.booleans(),
    unasked=st.booleans(),
    divided=st.booleans(),
    weight=st.integers(1, 100),
    bandwidth=st.floats(0.01, 1),
    keep=st.integers(0, 3),
)


@given(_KNOBS)
def test_one_workload_gets_what_it_wants(knobs: FileKnobs) -> None:
    assert merged([knobs]) == knobs


@given(st.lists(_KNOBS, max_size=4))
def test_in_whatever_order_workloads_come_it_is_the_same(wanted: list[FileKnobs]) -> None:
    assert merged(wanted) == merged(reversed(wanted))


@given(_KNOBS)
def test_beside_a_workload_without_rules_nobody_gets_less_than_ever(knobs: FileKnobs) -> None:
    both = merged([knobs, AS_EVER])
    assert both.ahead_bytes is None or both.ahead_bytes > ADAPTIVE.size
    assert both.ahead_files is None or both.ahead_files > ADAPTIVE.files
    assert both.cached
    assert both.weight >= AS_EVER.weight
    assert both.keep >= AS_EVER.keep
    assert both.bandwidth == 1


@cases(
    "most, level",
    (None, 19),
    (OptimizationLevel.BASIC, 1),
    (OptimizationLevel.BALANCED, 3),
    (OptimizationLevel.AGGRESSIVE, 9),
    (OptimizationLevel.MAXIMUM, 19),
)
def test_a_level_at_most_bounds_what_packing_costs(most: OptimizationLevel | None, level: int) -> None:
    packing = _knobs({"compression": "auto", "compression_level": 19}, most=most).packing
    assert packing is not None
    assert packing.level == level


def test_copies_are_made_where_all_workloads_agree_as_the_most_careful_has_them() -> None:
    fast, small = FileKnobs(packing=PackingKnobs(1, 3, tried=False)), FileKnobs(packing=PackingKnobs(9, 1.5))
    assert merged([fast, small]).packing == PackingKnobs(1, 3, tried=True)
    assert merged([fast, AS_EVER]).packing is None


@pytest.mark.parametrize(("model", "paged"), [(True, True), (False, False)])
def test_of_a_level_only_files_of_models_are_put_into_the_page_cache(model: bool, paged: bool) -> None:
    assert file_knobs(_explained({"level": OptimizationLevel.AGGRESSIVE}), model=model).paged is paged


@cases(
    "most, paged",
    (None, True),
    (OptimizationLevel.BASIC, False),
    (OptimizationLevel.BALANCED, False),
    (OptimizationLevel.AGGRESSIVE, True),
)
def test_a_class_of_low_levels_takes_no_page_cache(most: OptimizationLevel | None, paged: bool) -> None:
    assert _knobs({"page_cache_prefetch": True}, most=most).paged is paged


def test_a_file_is_read_ahead_in_a_known_order_unless_all_of_its_workloads_refuse() -> None:
    refused = FileKnobs(foreseen=False)
    assert [merged([refused, other]).foreseen for other in (AS_EVER, refused)] == [True, False]


def test_a_file_is_put_into_the_page_cache_when_one_of_its_workloads_wants_that() -> None:
    assert merged([AS_EVER, FileKnobs(paged=True)]).paged


@cases(
    "given, most, size",
    ({}, None, READ_AHEAD),
    ({"kernel_read_ahead": 0}, None, 0),
    ({"kernel_read_ahead": 64 * MIB}, None, 64 * MIB),
    ({"kernel_read_ahead": 64 * MIB}, OptimizationLevel.AGGRESSIVE, 32 * MIB),
    ({"kernel_read_ahead": 64 * MIB}, OptimizationLevel.BASIC, READ_AHEAD),
    ({"level": OptimizationLevel.BASIC}, None, 128 * 1024),
    ({"level": OptimizationLevel.AGGRESSIVE}, None, 32 * MIB),
    ({"level": OptimizationLevel.MAXIMUM}, None, 64 * MIB),
)
def test_the_read_ahead_of_a_mount_is_what_a_rule_says_within_what_its_class_allows(
    given: dict[str, KnobValue], most: OptimizationLevel | None, size: int
) -> None:
    assert kernel_read_ahead(_explained(given), most) == size

"""Map recommendations for files to knobs of the fetcher. Without a rule, a knob keeps its default."""

from collections.abc import Iterable

from stoker_sidecar.wire.fetcher_hints import KEEP_NORMAL, WARM_NORMAL, WEIGHT_NORMAL, FileKnobs, PackingKnobs
from stoker_tuning.recommend.in_force import BY_ITSELF, AheadFigures, by_rule
from stoker_tuning.recommend.knobs import MIB
from stoker_tuning.recommend.recommendation import Explained, Recommendation
from stoker_tuning.rules.merging import GivenValue
from stoker_tuning.vocabulary import CachePriority, Compression, OptimizationLevel, Split, WarmOrder

_RANKS = {WarmOrder.FIRST: 0, WarmOrder.EARLY: 1, WarmOrder.NORMAL: WARM_NORMAL, WarmOrder.LATE: 3}

_KEEPS = {
    CachePriority.LOW: 0,
    CachePriority.NORMAL: KEEP_NORMAL,
    CachePriority.HIGH: 2,
    CachePriority.URGENT: 3,
}


# Limits of a tenant's rules, by the highest level that the DatasetClass allows. Never less than the fetcher's defaults.
_MOST = {
    OptimizationLevel.BASIC: BY_ITSELF,
    OptimizationLevel.BALANCED: AheadFigures(48 * MIB, 128, 8, 16 * MIB),
    OptimizationLevel.AGGRESSIVE: AheadFigures(64 * MIB, 512, 16, 32 * MIB),
}
_EVERYTHING = AheadFigures(1024 * MIB, 4096, 64, 64 * MIB)
# Limits of the zstd level. Each of these levels takes several times as long as the previous one.
_MOST_ZSTD = {OptimizationLevel.BASIC: 1, OptimizationLevel.BALANCED: 3, OptimizationLevel.AGGRESSIVE: 9}


# With these limits, a Dataset uses no page cache before its first read.
_NOT_PAGED = (OptimizationLevel.BASIC, OptimizationLevel.BALANCED)


def file_knobs(
    explained: Explained,
    most: OptimizationLevel | None = None,
    split: Split = Split.UNKNOWN,
    *,
    model: bool = False,
) -> FileKnobs:
    """Return the knobs for files with a recommendation. ``model``: they are files of a model.

    A rule's explicit figure applies within the limits of ``most``. A figure from a named set (a level, a strategy, a
    policy, a priority) applies only if it exceeds the fetcher's default. Figures from phases and defaults have no
    effect. ``split``: the files' part of the Dataset, by their names; a rule's split takes precedence.
    """
    values, limits = explained.values, limits_of(most)

    def figure(knob: str, value: int, by_itself: int, at_most: int) -> int | None:
        if isinstance(explained.origins[knob], GivenValue):
            return min(value, at_most)
        return min(value, at_most) if by_rule(explained.origins, knob) and value > by_itself else None

    return FileKnobs(
        ahead_bytes=figure("prefetch_size", values.prefetch_size, BY_ITSELF.size, limits.size),
        ahead_files=figure("prefetch_depth", values.prefetch_depth, BY_ITSELF.files, limits.files),
        streams=figure("parallel_streams", values.parallel_streams, BY_ITSELF.streams, limits.streams),
        warm_rank=_RANKS[values.warm_order] if by_rule(explained.origins, "warm_order") else WARM_NORMAL,
        cached=values.should_cache or not by_rule(explained.origins, "should_cache"),
        packing=_packing(explained.values, most) if by_rule(explained.origins, "compression") else None,
        unasked=_is_validation(explained, split) and values.validation_ahead,
        divided=values.divide_cold or not by_rule(explained.origins, "divide_cold"),
        weight=_weight(values.lane_weight) if by_rule(explained.origins, "lane_weight") else WEIGHT_NORMAL,
        bandwidth=round(values.bandwidth_share, 2) if by_rule(explained.origins, "bandwidth_share") else 1.0,
        keep=_KEEPS[values.cache_priority] if by_rule(explained.origins, "cache_priority") else KEEP_NORMAL,
        paged=_is_paged(explained, model=model) and most not in _NOT_PAGED,
        foreseen=values.page_cache_prefetch or not isinstance(explained.origins["page_cache_prefetch"], GivenValue),
    )


def _packing(values: Recommendation, most: OptimizationLevel | None) -> PackingKnobs | None:
    if values.compression == Compression.OFF:
        return None
    level = values.compression_level if most is None else min(values.compression_level, _MOST_ZSTD.get(most, 19))
    return PackingKnobs(level, values.min_ratio, tried=values.compression == Compression.AUTO)


def _is_validation(explained: Explained, split: Split) -> bool:
    said = explained.values.split
    return (said if said != Split.UNKNOWN else split) == Split.VALIDATION


def _weight(asked: int) -> int:
    """Round down to a power of two, because each distinct weight costs another walk over a version."""
    return 1 << (asked.bit_length() - 1)


def _is_paged(explained: Explained, *, model: bool) -> bool:
    """Return True if files should be in the page cache, by a rule's explicit value or, for models, a named set.

    Pods read models as a whole, right after their start.
    """
    if not explained.values.page_cache_prefetch:
        return False
    given = isinstance(explained.origins["page_cache_prefetch"], GivenValue)
    return given or (model and by_rule(explained.origins, "page_cache_prefetch"))


def kernel_read_ahead(explained: Explained, most: OptimizationLevel | None = None) -> int:
    """Return the kernel's read-ahead for the files, in bytes. A figure applies as in ``file_knobs``."""
    value, given = explained.values.kernel_read_ahead, explained.origins["kernel_read_ahead"]
    counts = isinstance(given, GivenValue) or (
        value > BY_ITSELF.kernel and by_rule(explained.origins, "kernel_read_ahead")
    )
    return min(value, limits_of(most).kernel) if counts else BY_ITSELF.kernel


def limits_of(most: OptimizationLevel | None) -> AheadFigures:
    """Return the limits of figures for the highest level that a DatasetClass allows; None: any level."""
    return _EVERYTHING if most is None else _MOST.get(most, _EVERYTHING)


def merged(wanted: Iterable[FileKnobs]) -> FileKnobs:
    """Combine the knobs of several workloads for the same files: the largest request applies.

    Fetched bytes serve all readers, and the fetcher limits prefetch for all readers together. So it prefetches less
    than the default only if all workloads request less, and a file stays uncached only if all request that.
    """
    all_of_them = tuple(wanted) or (FileKnobs(),)
    return FileKnobs(
        ahead_bytes=_most([one.ahead_bytes for one in all_of_them], BY_ITSELF.size),
        ahead_files=_most([one.ahead_files for one in all_of_them], BY_ITSELF.files),
        streams=_most([one.streams for one in all_of_them], BY_ITSELF.streams),
        warm_rank=min(one.warm_rank for one in all_of_them),
        cached=any(one.cached for one in all_of_them),
        packing=_all_agree([one.packing for one in all_of_them]),
        unasked=any(one.unasked for one in all_of_them),
        divided=any(one.divided for one in all_of_them),
        weight=max(one.weight for one in all_of_them),
        bandwidth=max(one.bandwidth for one in all_of_them),
        keep=max(one.keep for one in all_of_them),
        paged=any(one.paged for one in all_of_them),
        foreseen=any(one.foreseen for one in all_of_them),
    )


def _all_agree(wanted: list[PackingKnobs | None]) -> PackingKnobs | None:
    """Return the packing that suits all: the lowest level and the highest ratio. None if any workload requests none."""
    known = [one for one in wanted if one is not None]
    if len(known) < len(wanted):
        return None
    level, ratio = min(one.level for one in known), max(one.least_ratio for one in known)
    return PackingKnobs(level, ratio, tried=any(one.tried for one in known))


def _most(figures: list[int | None], by_itself: int) -> int | None:
    """Return the largest figure. None counts as the fetcher's default."""
    largest = max(by_itself if figure is None else figure for figure in figures)
    return None if None in figures and largest == by_itself else largest

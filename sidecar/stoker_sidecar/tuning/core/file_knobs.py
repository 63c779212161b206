"""Map recommendations for files to knobs of the fetcher."""

from collections.abc import Iterable
from dataclasses import dataclass

from stoker_sidecar.wire.fetcher_hints import KEEP_NORMAL, WARM_NORMAL, FileKnobs, PackingKnobs
from stoker_tuning.recommend.knobs import MIB
from stoker_tuning.recommend.recommendation import Explained, Recommendation
from stoker_tuning.rules.merging import GivenValue
from stoker_tuning.vocabulary import CachePolicy, CachePriority, Compression, OptimizationLevel, Split, WarmOrder

_RANKS = {WarmOrder.FIRST: 0, WarmOrder.EARLY: 1, WarmOrder.NORMAL: WARM_NORMAL, WarmOrder.LATE: 3}

_KEEPS = {
    CachePriority.LOW: 0,
    CachePriority.NORMAL: KEEP_NORMAL,
    CachePriority.HIGH: 2,
    CachePriority.URGENT: 3,
}


@dataclass(frozen=True, slots=True)
class AheadFigures:
    """The amount of prefetch: bytes within a file, files of a folder, requests for parts of a file.

    ``kernel``: bytes of the kernel's read-ahead on FUSE mounts.
    """

    size: int
    files: int
    streams: int
    kernel: int


# The maximum that adaptive prefetch reaches; a test compares it with the fetcher's figures.
ADAPTIVE = AheadFigures(32 * MIB, 64, 5, 16 * MIB)
# Limits of a tenant's rules, by the highest level that the DatasetClass allows. Never less than the default level.
_MOST = {
    OptimizationLevel.BASIC: ADAPTIVE,
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

    Figures apply within the limits of ``most``. ``split``: the files' part of the Dataset, by their names; a rule's
    split takes precedence.
    """
    values, limits = explained.values, limits_of(most)
    return FileKnobs(
        ahead_bytes=_figure(values.prefetch_size, limits.size),
        ahead_files=_figure(values.prefetch_depth, limits.files),
        streams=_figure(values.parallel_streams, limits.streams),
        warm_rank=_RANKS[values.warm_order],
        cached=values.should_cache,
        packing=_packing(explained.values, most),
        unasked=_is_validation(explained, split) and values.validation_ahead,
        divided=values.divide_cold,
        weight=_weight(values.lane_weight),
        bandwidth=round(values.bandwidth_share, 2),
        keep=_KEEPS[values.cache_priority],
        paged=_is_paged(explained, model=model) and most not in _NOT_PAGED,
        foreseen=values.known_order and not _refuses_pages(explained),
        ordered=values.known_order,
        reused=values.cache_policy in (CachePolicy.TRAINING_AWARE, CachePolicy.ML),
    )


def _figure(value: int | str, at_most: int) -> int | None:
    """Return a figure within its limit; None: AUTO, so that the fetcher adapts it."""
    return None if isinstance(value, str) else min(value, at_most)


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
    """Return True if files are read into the page cache at mount. The value of a level is for files of models.

    Pods read models as a whole, right after their start.
    """
    return explained.values.page_cache_prefetch and (model or _is_by_rule(explained))


def _refuses_pages(explained: Explained) -> bool:
    return not explained.values.page_cache_prefetch and _is_by_rule(explained)


def _is_by_rule(explained: Explained) -> bool:
    return isinstance(explained.origins["page_cache_prefetch"], GivenValue)


def kernel_read_ahead(explained: Explained, most: OptimizationLevel | None = None) -> int:
    """Return the kernel's read-ahead for the files, in bytes, within the limits of ``most``."""
    return min(explained.values.kernel_read_ahead, limits_of(most).kernel)


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
        ahead_bytes=_most([one.ahead_bytes for one in all_of_them], ADAPTIVE.size),
        ahead_files=_most([one.ahead_files for one in all_of_them], ADAPTIVE.files),
        streams=_most([one.streams for one in all_of_them], ADAPTIVE.streams),
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
        ordered=any(one.ordered for one in all_of_them),
        reused=any(one.reused for one in all_of_them),
    )


def _all_agree(wanted: list[PackingKnobs | None]) -> PackingKnobs | None:
    """Return the packing that suits all: the lowest level and the highest ratio. None if any workload requests none."""
    known = [one for one in wanted if one is not None]
    if len(known) < len(wanted):
        return None
    level, ratio = min(one.level for one in known), max(one.least_ratio for one in known)
    return PackingKnobs(level, ratio, tried=any(one.tried for one in known))


def _most(figures: list[int | None], adaptive: int) -> int | None:
    """Return the largest figure. None adapts, and counts as the maximum that it reaches."""
    largest = max(adaptive if figure is None else figure for figure in figures)
    return None if None in figures and largest == adaptive else largest

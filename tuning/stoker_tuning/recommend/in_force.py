"""Which values of a recommendation Stoker applies. Knobs without a rule keep Stoker's own behavior."""

from collections.abc import Mapping
from dataclasses import dataclass

from stoker_tuning.recommend.knobs import MIB, TURNED_KNOBS
from stoker_tuning.recommend.named_sets import NAMED_SETS
from stoker_tuning.recommend.recommendation import Explained
from stoker_tuning.rules.merging import GivenValue
from stoker_tuning.vocabulary import Compression

NAMING_KNOBS = frozenset(NAMED_SETS)


@dataclass(frozen=True, slots=True)
class AheadFigures:
    """The amount of prefetch: bytes within a file, files of a folder, requests for parts of a file.

    ``kernel``: bytes of the kernel's read-ahead on FUSE mounts.
    """

    size: int
    files: int
    streams: int
    kernel: int


# The maximum that fetcher and mounts reach without rules; a test compares it with their own figures.
BY_ITSELF = AheadFigures(32 * MIB, 64, 5, 16 * MIB)
_FIGURES = {
    "prefetch_size": BY_ITSELF.size,
    "prefetch_depth": BY_ITSELF.files,
    "parallel_streams": BY_ITSELF.streams,
    "kernel_read_ahead": BY_ITSELF.kernel,
}
_OF_COMPRESSION = ("compression_level", "min_ratio")


def by_rule(origins: Mapping[str, GivenValue | str], knob: str) -> bool:
    """Return True if a rule gave the value of a knob, or named the set that did."""
    origin = origins[knob]
    while isinstance(origin, str):
        naming = origin.partition(" ")[0]
        if naming not in NAMING_KNOBS:
            return False
        origin = origins[naming]
    return True


def in_force(explained: Explained, knob: str, *, model: bool = False) -> bool:
    """Return True if the value of ``knob`` is applied. ``model``: the file belongs to a model."""
    if knob not in TURNED_KNOBS or not by_rule(explained.origins, knob):
        return False
    if isinstance(explained.origins[knob], GivenValue):
        return knob not in _OF_COMPRESSION or _compresses(explained)
    if knob in _FIGURES:
        return bool(getattr(explained.values, knob) > _FIGURES[knob])
    return knob != "page_cache_prefetch" or model


def _compresses(explained: Explained) -> bool:
    return by_rule(explained.origins, "compression") and explained.values.compression != Compression.OFF

"""Mechanisms that a benchmark may switch off, to show what each is worth. Never for use: each makes things worse."""

from collections.abc import Collection
from dataclasses import dataclass

SINGLE_FLIGHT = "single-flight"
NO_EVICTION = "no-eviction"
READAHEAD = "readahead"
WORDS = (SINGLE_FLIGHT, NO_EVICTION, READAHEAD)


@dataclass(frozen=True)
class Ablation:
    """True: off. ``no_eviction``: a file that does not fit the quota drives out the one that is here for longest."""

    single_flight: bool = False
    no_eviction: bool = False
    readahead: bool = False

    @classmethod
    def of(cls, words: Collection[str]) -> "Ablation":
        """From command-line words, each of WORDS."""
        return cls(*(word in words for word in WORDS))

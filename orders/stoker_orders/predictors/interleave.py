"""Inputs of an order other than samples, seed and epoch: the ranks, and a sampler's parameters."""

from dataclasses import dataclass
from fractions import Fraction

# A sample that is unknown because no rank of this node reads it; or a place that does not exist.
NONE = 2**32 - 1


@dataclass(frozen=True)
class Dealing:
    """How samples are dealt. ``here`` are the ranks in the query; empty: all of ``ranks``.

    ``group`` is the number of samples of each group, ``reservoir`` the number of open groups of a rank, and ``ratio``
    the share of the samples in an epoch.
    """

    ranks: int = 1
    here: tuple[int, ...] = ()
    drop_last: bool = False
    group: int = 1
    reservoir: int = 256
    ratio: Fraction = Fraction(1)

    @property
    def asked(self) -> tuple[int, ...]:
        """The ranks whose order is needed."""
        return self.here or tuple(range(self.ranks))


ALONE = Dealing()

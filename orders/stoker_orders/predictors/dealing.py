"""What an order may follow from beside samples, seed and epoch: the ranks, and what a sampler is told of its own."""

from dataclasses import dataclass
from fractions import Fraction

# In place of a sample: it is not known which, since no rank of this node reads it. In place of a place: there is none.
NONE = 2**32 - 1


@dataclass(frozen=True)
class Dealing:
    """How samples are dealt. ``here``: the ranks that are asked about; empty: all of ``ranks``.

    ``group``: samples of each group; ``reservoir``: groups of a rank that are open at a time; ``ratio``: the share of
    the samples that an epoch has.
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

"""The schedule of an order: ranks that share it, batches, and loader processes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# Batches that a PyTorch loader process holds or fetches before the first is used.
_PREFETCHED = 2
# Minimum disorder of reads for any job: interleaved loaders, batched reports.
_LEAST_SLACK = 64


@dataclass(frozen=True)
class Loading:
    """How a node's share of an order is read.

    ``turn`` is the number of samples that a rank takes before the next rank's turn. ``here`` are the ranks on this
    node. A **step** counts the samples of one rank; all ranks are at about the same step. With ``own_orders`` the ranks
    have separate orders, so that reads do not show their rank.
    """

    samples: int
    ranks: int
    here: tuple[int, ...]
    turn: int = 1
    batch: int = 1
    loaders: int = 0
    drop_last: bool = False
    own_orders: bool = False

    @property
    def round(self) -> int:
        """Samples of all ranks in one turn each."""
        return self.turn * self.ranks

    @property
    def total(self) -> int:
        """Samples of an epoch. An incomplete round is dropped, or filled with the first samples.

        A single rank without ``drop_last`` has a short last batch, because it need not match other ranks.
        """
        if self.ranks == 1 and not self.drop_last:
            return self.samples
        rounds = self.samples // self.round if self.drop_last else -(-self.samples // self.round)
        return rounds * self.round

    @property
    def steps(self) -> int:
        """Samples of each rank."""
        return self.total // self.ranks

    @property
    def slack(self) -> int:
        """Maximum disorder of reads in steps: the batches that a rank's loaders have in progress."""
        return max(_LEAST_SLACK, self.batch * max(1, self.loaders) * (1 + _PREFETCHED))

    @property
    def stretch(self) -> int:
        """Steps that are read at the same time: a batch of each loader."""
        return self.batch * max(1, self.loaders)

    def surely_read(self, step: int) -> int:
        """Return the number of steps in ``indices`` order that are certainly read when this step is.

        Loaders may each read a batch at the same time. Then the last batch's first sample says little about the other
        batches. Or they read one batch after the other, and later batches have not started.
        """
        within = step % self.stretch
        batch, place = divmod(within, self.batch)
        return step - within + min(within, place * max(1, self.loaders) + batch)

    def step(self, index: int) -> int:
        """Return the step at which a rank reads the sample at this index of the order."""
        return index // self.round * self.turn + index % self.turn

    def rank(self, index: int) -> int:
        """Return the rank that reads this index."""
        return index // self.turn % self.ranks

    def index(self, step: int, rank: int) -> int:
        """Return the index in the order of a rank's step."""
        return step // self.turn * self.round + rank * self.turn + step % self.turn

    def indices(self, step: int) -> Iterator[int]:
        """Yield the indices that this node's ranks read from a step on, about in time order.

        Each loader reads a batch at the same time: the first sample of each batch, then the second of each, and so on.
        """
        stretch, steps = self.stretch, self.steps
        for start in range(step // stretch * stretch, steps, stretch):
            for place in range(self.batch):
                for first in range(start + place, min(start + stretch, steps), self.batch):
                    for rank in self.here:
                        yield self.index(first, rank)

    def in_batches(self, step: int) -> Iterator[int]:
        """Yield the same indices, with each batch of a rank complete before its next one.

        A training consumes batches in order: it waits for the first while the loaders read all of theirs in parallel.
        """
        for one in range(step // self.stretch * self.stretch, self.steps):
            for rank in self.here:
                yield self.index(one, rank)


def rank_order(order: Sequence[int], loading: Loading, rank: int) -> list[int]:
    """Return the samples of one rank in its order, filled with the first samples as needed."""
    count = len(order)
    return [order[loading.index(step, rank) % count] for step in range(loading.steps)] if count else []


def guessed_ranks(indices: Sequence[int], turn: int, most: int, here: int = 1) -> tuple[int, tuple[int, ...]]:
    """Guess the number of ranks that share an order, and the ranks at these indices, ``here`` at most.

    Return the largest number for which nearly all indices belong to ``here`` ranks. Otherwise return ``here`` ranks,
    all on this node.
    """
    turns = [index // turn for index in indices]
    spare = len(turns) // 20
    for ranks in range(most, here, -1):
        seen: set[int] = set()
        for one in turns:
            seen.add(one % ranks)
            if len(seen) > here + spare:  # each outlier adds at most one
                break
        else:
            found = Counter(one % ranks for one in turns).most_common(here)
            if turns and sum(count for _, count in found) >= len(turns) - spare:
                return ranks, tuple(sorted(rank for rank, _ in found))
    return here, tuple(range(here))

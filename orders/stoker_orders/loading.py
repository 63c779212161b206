"""Who reads what of an order, and when: ranks that share it, batches, and the processes that load them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# Batches that a loading process of PyTorch has ready or under way before the first is asked for.
_PREFETCHED = 2
# Reads that may come out of order whatever a job says: loaders that run into one another, batches of reports.
_LEAST_SLACK = 64


@dataclass(frozen=True)
class Loading:
    """How a node's share of an order is read.

    ``turn``: samples that a rank takes before the next has its turn. ``here``: the ranks that read on this node.
    A **step** counts the samples of one rank; all ranks are at about the same one. ``own_orders``: ranks do not share
    one order, so reads do not tell whose they are.
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
        """Samples that all ranks together take in one turn each."""
        return self.turn * self.ranks

    @property
    def total(self) -> int:
        """Samples of an epoch: what does not go round is left out, or made up by the first ones.

        One rank that leaves nothing out has a last batch that is short: nobody else's has to be as long.
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
        """Steps by which reads may be out of order: what the loaders of a rank have under way."""
        return max(_LEAST_SLACK, self.batch * max(1, self.loaders) * (1 + _PREFETCHED))

    @property
    def stretch(self) -> int:
        """Steps that are read at the same time: a batch of each loader."""
        return self.batch * max(1, self.loaders)

    def surely_read(self, step: int) -> int:
        """Return how many steps have been read for sure, in the order of ``indices``, when this one is.

        Loaders read a batch each at the same time: the last one's first sample then says little of the others. Or they
        read one batch after the other, and have not begun those behind.
        """
        within = step % self.stretch
        batch, place = divmod(within, self.batch)
        return step - within + min(within, place * max(1, self.loaders) + batch)

    def step(self, index: int) -> int:
        """Return at which step the sample at this index of the order is read, by whichever rank."""
        return index // self.round * self.turn + index % self.turn

    def rank(self, index: int) -> int:
        """Return by which rank."""
        return index // self.turn % self.ranks

    def index(self, step: int, rank: int) -> int:
        """Return the index in the order at which a rank reads its step."""
        return step // self.turn * self.round + rank * self.turn + step % self.turn

    def indices(self, step: int) -> Iterator[int]:
        """Yield the indices that this node's ranks read from a step on, about in the order of time.

        Loaders read a batch each at the same time: the first sample of each, the second of each, and so on.
        """
        stretch, steps = self.stretch, self.steps
        for start in range(step // stretch * stretch, steps, stretch):
            for place in range(self.batch):
                for first in range(start + place, min(start + stretch, steps), self.batch):
                    for rank in self.here:
                        yield self.index(first, rank)

    def in_batches(self, step: int) -> Iterator[int]:
        """Yield the same indices, but each batch of a rank whole before its next one.

        A training takes batches in their order: it waits for the first while its loaders read all of theirs at once.
        """
        for one in range(step // self.stretch * self.stretch, self.steps):
            for rank in self.here:
                yield self.index(one, rank)


def rank_order(order: Sequence[int], loading: Loading, rank: int) -> list[int]:
    """Return the samples of one rank in its order; made up by the first samples, as often as needed."""
    count = len(order)
    return [order[loading.index(step, rank) % count] for step in range(loading.steps)] if count else []


def guessed_ranks(indices: Sequence[int], turn: int, most: int, here: int = 1) -> tuple[int, tuple[int, ...]]:
    """Return among how many ranks an order is shared, and which of them read at these indices: ``here`` at most.

    The largest number for which nearly all of them are of so few ranks; ``here``, and all of them, where there is none.
    """
    turns = [index // turn for index in indices]
    spare = len(turns) // 20
    for ranks in range(most, here, -1):
        seen: set[int] = set()
        for one in turns:
            seen.add(one % ranks)
            if len(seen) > here + spare:  # each that does not belong adds one at most
                break
        else:
            found = Counter(one % ranks for one in turns).most_common(here)
            if turns and sum(count for _, count in found) >= len(turns) - spare:
                return ranks, tuple(sorted(rank for rank, _ in found))
    return here, tuple(range(here))

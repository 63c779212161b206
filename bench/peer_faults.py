"""Pairs of warm-ups by the same nodes, without faults and with peers that lie, stall, break off and die.

Nodes of one process warm the same data from a source behind a line of 8 MB/s, over the real TLS between them, in turn
without faults and with them: every second node answers wrongly, half of the time, and in every second pair the last of
these is gone for good after some seconds. Pods read at random meanwhile.
"""

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.faulty_peers import FaultyRun, run_faulty, some_objects

_RATE = 8e6
_SMALL, _SIZE, _LARGE = 2000, 10_000, (40 * 2**20, 20 * 2**20)
# Of what they are asked, so much is answered wrongly by nodes that are; and seconds in which one dies.
_WRONG, _DIES_WITHIN = 0.5, 8.0
# Seconds for one run at most: ten times what one takes. One that takes longer is a failure.
_MOST_SECONDS = 300.0
_MOST_OVER = 3


@dataclass(frozen=True)
class Pair:
    """A run without faults, and one with them."""

    good: FaultyRun
    bad: FaultyRun

    @property
    def ratio(self) -> float:
        """How many times as long the one with faults took."""
        return self.bad.seconds / self.good.seconds


@dataclass(frozen=True)
class Summary:
    """What came of the pairs so far; ``total``: bytes of the data; ``over``: runs that took too long."""

    pairs: Sequence[Pair]
    total: int
    over: int = 0

    @property
    def faults(self) -> Counter[str]:
        """How many of which kind."""
        return sum((pair.bad.faults for pair in self.pairs), Counter())

    @property
    def wrong(self) -> int:
        """Files that are not what the source has."""
        return sum(len(run.wrong_files) for pair in self.pairs for run in (pair.good, pair.bad))

    @property
    def failed(self) -> int:
        """Reads that failed, or had wrong bytes."""
        return sum(len(run.failed_reads) for pair in self.pairs for run in (pair.good, pair.bad))

    @property
    def reads(self) -> int:
        """Reads in all."""
        return sum(pair.good.reads + pair.bad.reads for pair in self.pairs)


def summaries(faults: int, nodes: int, say: Callable[[str], None]) -> Iterator[Summary]:
    """Run pairs until so many faults were made, or runs come to no end; yield what is known after each."""
    objects, seed = some_objects(_SMALL, _SIZE, _LARGE), 1
    total = sum(map(len, objects.values()))
    summary = Summary((), total)
    while summary.faults.total() < faults and summary.over < _MOST_OVER:
        try:
            pair = _pair(objects, nodes, seed)
        except TimeoutError:
            summary = replace(summary, over=summary.over + 1)
            say(f"a run with seed {seed} took more than {_MOST_SECONDS:.0f} s")
        else:
            summary = replace(summary, pairs=(*summary.pairs, pair))
            say(_line(pair, nodes, total, summary.faults.total()))
        yield summary
        seed += 1


def _pair(objects: Mapping[str, bytes], nodes: int, seed: int) -> Pair:
    """Run once without faults and once with them. Raises TimeoutError."""
    faulty = range(1, nodes, 2)
    dies = {faulty[-1]: random.Random(seed).uniform(0, _DIES_WITHIN)} if seed % 2 == 0 and faulty else {}
    good = _run(objects, [0.0] * nodes, seed, {})
    return Pair(good, _run(objects, [_WRONG * (number in faulty) for number in range(nodes)], seed, dies))


def _run(objects: Mapping[str, bytes], shares: list[float], seed: int, dies: Mapping[int, float]) -> FaultyRun:
    async def within(folder: Path) -> FaultyRun:
        async with asyncio.timeout(_MOST_SECONDS):
            return await run_faulty(folder, objects, shares, seed=seed, rate=_RATE, dies=dies)

    with tempfile.TemporaryDirectory(prefix="faults-", dir="/var/tmp") as folder:
        return asyncio.run(within(Path(folder)))


def _line(pair: Pair, nodes: int, total: int, so_far: int) -> str:
    good, bad = _told(pair.good, total), _told(pair.bad, total)
    death = ", one of them a death" if pair.bad.faults["died"] else ""
    faults = f"{pair.bad.faults.total()}{death}"
    return f"{nodes} nodes: {good} without faults, {bad} with {faults}: {pair.ratio:.2f} x the time ({so_far} so far)"


def _told(run: FaultyRun, total: int) -> str:
    return f"{run.seconds:5.1f} s and {run.sent / total:.2f} x the data ({run.again} asked for again)"

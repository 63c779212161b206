"""The cost of peers that lie, stall, disconnect and die, and the number of wrong bytes that readers get.

Nodes in one process warm the same data, alternately without faults and with them. The source is behind a line of
8 MB/s, and real TLS is between the nodes. Every second node gives wrong answers, half of the time. In every second pair
of runs, the last of these nodes dies after some seconds. Pods read at random until all data is warm.
"""

import asyncio
import logging
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.environment import Environment
from bench.faulty_peers import FaultyRun, run_faulty, some_objects
from bench.report import Row
from bench.systems import STOKER

_WITHOUT = "Stoker, no faults"
_NODES = 4  # two of them are faulty
_RATE = 8e6
_SMALL, _SIZE, _LARGE = 2000, 10_000, (40 * 2**20, 20 * 2**20)
# The share of wrong answers of a faulty node, and the range of seconds within which one dies.
_WRONG, _DIES_WITHIN = 0.5, 8.0
# The limit of one run in seconds: ten times the usual. A longer run is a failure.
_MOST_SECONDS = 300.0
_MOST_OVER = 3


@dataclass
class Pairs:
    """Runs without faults and with them, in the same order. ``over`` is the number of runs that took too long."""

    total: int  # bytes of the data
    good: list[FaultyRun] = field(default_factory=list)
    bad: list[FaultyRun] = field(default_factory=list)
    over: int = 0

    @property
    def faults(self) -> Counter[str]:
        """The number of faults by kind."""
        return sum((run.faults for run in self.bad), Counter())

    def rows(self) -> Iterator[Row]:
        """Yield the figures of all runs so far."""
        case, runs = f"{_NODES} nodes, every second one faulty", self.good + self.bad
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.faults.most_common())
        counts = {
            "faults": (self.faults.total(), kinds),
            "wrong files": (sum(len(run.wrong_files) for run in runs), ""),
            "failed reads": (sum(len(run.failed_reads) for run in runs), f"of {sum(run.reads for run in runs):,}"),
            "runs without an end": (self.over, ""),
        }
        for unit, (count, note) in counts.items():
            yield Row("faults", case, STOKER, unit, (float(count),), note=note)
        for system, mine in ((_WITHOUT, self.good), (STOKER, self.bad)) if self.good else ():
            yield Row("faults", case, system, "s until all have it", tuple(run.seconds for run in mine), _WITHOUT)
            sent = tuple(run.sent / self.total for run in mine)
            yield Row("faults", case, system, "x the data sent by the source", sent)


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows after the scale's number of faults, if runs do not end, or on interrupt."""
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # it logs each broken connection
    objects, seed = some_objects(_SMALL, _SIZE, _LARGE), 1
    pairs = Pairs(sum(map(len, objects.values())))
    try:
        while pairs.faults.total() < env.scale.faults and pairs.over < _MOST_OVER:
            _add_pair(env, pairs, objects, seed)
            seed += 1
    except KeyboardInterrupt:
        yield from pairs.rows()
        raise
    yield from pairs.rows()


def _add_pair(env: Environment, pairs: Pairs, objects: Mapping[str, bytes], seed: int) -> None:
    """Run once without faults and once with them."""
    faulty = range(1, _NODES, 2)
    dies = {faulty[-1]: random.Random(seed).uniform(0, _DIES_WITHIN)} if seed % 2 == 0 else {}
    try:
        good = _run(objects, [0.0] * _NODES, seed, {})
        bad = _run(objects, [_WRONG * (number in faulty) for number in range(_NODES)], seed, dies)
    except TimeoutError:
        pairs.over += 1
        env.say(f"a run with seed {seed} took more than {_MOST_SECONDS:.0f} s")
        return
    pairs.good.append(good)
    pairs.bad.append(bad)
    shares = [f"{run.seconds:.1f} s and {run.sent / pairs.total:.2f} x the data" for run in (good, bad)]
    faults = f"{bad.faults.total()} faults ({pairs.faults.total()} so far)"
    env.say(f"{_NODES} nodes: {shares[0]} without faults, {shares[1]} with {faults}")


def _run(objects: Mapping[str, bytes], shares: Sequence[float], seed: int, dies: Mapping[int, float]) -> FaultyRun:
    """Run once. Raises TimeoutError."""

    async def within(folder: Path) -> FaultyRun:
        async with asyncio.timeout(_MOST_SECONDS):
            return await run_faulty(folder, objects, shares, seed=seed, rate=_RATE, dies=dies)

    with tempfile.TemporaryDirectory(prefix="faults-", dir="/var/tmp") as folder:
        return asyncio.run(within(Path(folder)))

"""What peers that lie, stall, break off and die cost: `python -m bench.peer_faults [FAULTS [NODES]]`.

Nodes of one process warm the same data from a source behind a line of 8 MB/s, over the real TLS between them, without
faults and with them in turn, until so many faults were made: every second node answers wrongly, half of the time, and
in every second pair of runs the last of these is gone for good after some seconds. Each line has the seconds of the two
runs; the last one says whether any byte or read was wrong, and the code it ends with is 1 then. All that is known is in
a file after each pair; who interrupts it, or gives it so many seconds, is told of the pairs that were ended.
"""

import argparse
import asyncio
import json
import logging
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from bench.faulty_peers import FaultyRun, run_faulty, some_objects

_RATE = 8e6
_SMALL, _SIZE, _LARGE = 2000, 10_000, (40 * 2**20, 20 * 2**20)
# Of what they are asked, so much is answered wrongly by nodes that are; and seconds in which one dies.
_WRONG, _DIES_WITHIN = 0.5, 8.0
# Seconds for one run at most: ten times what one takes. One that takes longer is a failure.
_MOST_SECONDS = 300.0
_RESULTS = Path(__file__).resolve().parent / "results" / "peer-faults.json"


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
    """What came of the pairs so far; ``over``: runs that took too long."""

    pairs: Sequence[Pair]
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

    @property
    def is_good(self) -> bool:
        """Tell whether nothing was wrong, and all runs came to their end."""
        return self.wrong + self.failed + self.over == 0

    def json(self) -> str:
        """Return all figures."""
        told = {"faults": self.faults.total(), "kinds": dict(self.faults), "wrong_files": self.wrong}
        told |= {"failed_reads": self.failed, "reads": self.reads, "runs_over_time": self.over}
        pairs = [
            {"good": one.good.seconds, "bad": one.bad.seconds, "ratio": one.ratio, "faults": one.bad.faults.total()}
            for one in self.pairs
        ]
        return json.dumps(told | {"seconds": pairs}, indent=1)

    def lines(self) -> list[str]:
        """Return the same for people."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.faults.most_common())
        ratios = [pair.ratio for pair in self.pairs]
        times = "no pair was ended"
        if ratios:
            times = f"time {sum(ratios) / len(ratios):.2f} x on average, {max(ratios):.2f} x at most"
        over = f"; {self.over} runs took more than {_MOST_SECONDS:.0f} s" if self.over else ""
        return [
            f"{self.faults.total()} faults in {len(self.pairs)} pairs of runs ({kinds})",
            f"{self.wrong} wrong files, {self.failed} failed of {self.reads} reads; {times}{over}",
        ]


def parser() -> argparse.ArgumentParser:
    """Return the command line's."""
    top = argparse.ArgumentParser(prog="python -m bench.peer_faults", description=__doc__.splitlines()[0])
    top.add_argument("faults", nargs="?", type=int, default=10_000, help="so many in all (default: %(default)s)")
    top.add_argument("nodes", nargs="?", type=int, default=4, help="every second one is faulty (%(default)s)")
    top.add_argument("--seed", type=int, default=1, help="of the first pair of runs (%(default)s)")
    top.add_argument(
        "--seconds", type=float, default=3600.0, metavar="S", help="begin no pair of runs after so many (%(default)s)"
    )
    top.add_argument("--json", type=Path, default=_RESULTS, help="where the figures go after each pair (bench/results)")
    return top


def main() -> int:
    """Print one line a pair of runs; 1 where bytes or reads were wrong, or a run took too long."""
    options = parser().parse_args()
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # it tells of each connection that breaks off
    signal.signal(signal.SIGTERM, _interrupted)
    summary = Summary(())
    try:
        for summary in _summaries(options.faults, options.nodes, options.seed, options.seconds):
            _keep(summary, options.json)
    except KeyboardInterrupt:
        print("interrupted:")
    print("\n".join(summary.lines()))
    return int(not summary.is_good)


def _summaries(faults: int, nodes: int, seed: int, seconds: float) -> Iterator[Summary]:
    """Run pairs; yield what is known after each."""
    objects, began = some_objects(_SMALL, _SIZE, _LARGE), time.monotonic()
    total, summary = sum(map(len, objects.values())), Summary(())
    while summary.faults.total() < faults and time.monotonic() - began < seconds:
        try:
            pair = _pair(objects, nodes, seed)
        except TimeoutError:
            summary = Summary(summary.pairs, summary.over + 1)
            print(f"a run with seed {seed} took more than {_MOST_SECONDS:.0f} s", flush=True)
        else:
            summary = Summary((*summary.pairs, pair), summary.over)
            print(_line(pair, nodes, total, summary.faults.total()), flush=True)
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


def _keep(summary: Summary, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f"{path.name}.new")
    whole.write_text(summary.json())
    whole.replace(path)


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

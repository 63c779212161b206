"""What peers that lie, stall, break off and die cost: `python -m bench.peer_faults [FAULTS [NODES]]`.

Nodes of one process warm the same data from a source behind a line of 8 MB/s, over the real TLS between them, without
faults and with them in turn, until so many faults were made: every second node answers wrongly, half of the time, and
in every second pair of runs the last of these is gone for good after some seconds. Each line has the seconds of the two
runs; the last one says whether any byte or read was wrong, and the code it ends with is 1 then.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from bench.faulty_peers import FaultyRun, run_faulty, some_objects

_RATE = 8e6
_SMALL, _SIZE, _LARGE = 2000, 10_000, (40 * 2**20, 20 * 2**20)
# Of what they are asked, so much is answered wrongly by nodes that are; and seconds in which one dies.
_WRONG, _DIES_WITHIN = 0.5, 8.0


def main() -> int:
    """Print one line a pair of runs; 1 where bytes or reads were wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.peer_faults", description=__doc__.splitlines()[0])
    parser.add_argument("faults", nargs="?", type=int, default=10_000, help="so many in all (default: %(default)s)")
    parser.add_argument("nodes", nargs="?", type=int, default=4, help="every second one is faulty (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first pair of runs (%(default)s)")
    options = parser.parse_args()
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # it tells of each connection that breaks off
    objects, seed = some_objects(_SMALL, _SIZE, _LARGE), options.seed
    total = sum(map(len, objects.values()))
    faults, runs, ratios = Counter[str](), list[FaultyRun](), list[float]()
    while faults.total() < options.faults:
        faulty = range(1, options.nodes, 2)
        dies = {faulty[-1]: random.Random(seed).uniform(0, _DIES_WITHIN)} if seed % 2 == 0 and faulty else {}
        good = _run(objects, [0.0] * options.nodes, seed, {})
        bad = _run(objects, [_WRONG * (number in faulty) for number in range(options.nodes)], seed, dies)
        seed += 1
        runs += (good, bad)
        faults += bad.faults
        ratios.append(bad.seconds / good.seconds)
        print(
            f"{options.nodes} nodes: {_told(good, total)} without faults, {_told(bad, total)} with {bad.faults.total()}"
            f"{', one of them a death' if dies else ''}: {ratios[-1]:.2f} x the time ({faults.total()} so far)",
            flush=True,
        )
    wrong, failed = sum(len(run.wrong_files) for run in runs), sum(len(run.failed_reads) for run in runs)
    print(f"{faults.total()} faults ({', '.join(f'{count} {kind}' for kind, count in faults.most_common())})")
    print(f"{wrong} wrong files, {failed} failed of {sum(run.reads for run in runs)} reads; ", end="")
    print(f"time {sum(ratios) / len(ratios):.2f} x on average, {max(ratios):.2f} x at most")
    return int(wrong + failed > 0)


def _run(objects: Mapping[str, bytes], shares: list[float], seed: int, dies: Mapping[int, float]) -> FaultyRun:
    with tempfile.TemporaryDirectory(prefix="faults-", dir="/var/tmp") as folder:
        return asyncio.run(run_faulty(Path(folder), objects, shares, seed=seed, rate=_RATE, dies=dies))


def _told(run: FaultyRun, total: int) -> str:
    return f"{run.seconds:5.1f} s and {run.sent / total:.2f} x the data ({run.again} asked for again)"


if __name__ == "__main__":
    sys.exit(main())

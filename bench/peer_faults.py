"""What peers that lie, stall and break off cost: `python -m bench.peer_faults [FAULTS [NODES]]`.

Nodes of one process warm the same data from a source behind a line of 8 MB/s, over the real TLS between them, without
faults and with them in turn, until so many faults were made (10,000 by default): every second node answers wrongly,
half of the time. Each line has the seconds of the two runs; the last one says whether any byte or read was wrong.
"""

import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path

from bench.faulty_peers import FaultyRun, run_faulty, some_objects

_RATE = 8e6
_SMALL, _SIZE, _LARGE = 2000, 10_000, (40 * 2**20, 20 * 2**20)


def main() -> int:
    """Print one line a pair of runs."""
    wanted, nodes = (int(word) for word in (sys.argv[1:] + ["10000", "4"][len(sys.argv) - 1 :])[:2])
    objects, seed = some_objects(_SMALL, _SIZE, _LARGE), 0
    total = sum(map(len, objects.values()))
    faults, runs, ratios = Counter[str](), list[FaultyRun](), list[float]()
    while sum(faults.values()) < wanted:
        seed += 1
        pair = []
        for share in (0.0, 0.5):
            with tempfile.TemporaryDirectory(prefix="faults-", dir="/var/tmp") as folder:
                shares = [share * (number % 2) for number in range(nodes)]
                pair.append(asyncio.run(run_faulty(Path(folder), objects, shares, seed=seed, rate=_RATE)))
        good, bad = pair
        runs += pair
        faults += bad.faults
        ratios.append(bad.seconds / good.seconds)
        print(
            f"{nodes} nodes: {good.seconds:5.1f} s and {good.sent / total:.2f} x the data without faults, "
            f"{bad.seconds:5.1f} s and {bad.sent / total:.2f} x with {bad.faults.total()}: {ratios[-1]:.2f} x the time",
            flush=True,
        )
    wrong, failed = sum(len(run.wrong_files) for run in runs), sum(len(run.failed_reads) for run in runs)
    print(f"{faults.total()} faults ({', '.join(f'{count} {kind}' for kind, count in faults.most_common())})")
    print(f"{wrong} wrong files, {failed} failed of {sum(run.reads for run in runs)} reads; ", end="")
    print(f"time {sum(ratios) / len(ratios):.2f} x on average, {max(ratios):.2f} x at most")
    return int(wrong + failed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""B6's large objects alone, from one distance, beside s5cmd: `python -m bench.large_warmup` takes two minutes."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.proxy import PROFILES
from bench.report import Row
from bench.runner import Run
from bench.scale import SCALES, SHARD_BYTES, Corpus, WarmUp
from bench.systems import S5CMD, STOKER
from bench.workloads import warmup


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(prog="python -m bench.large_warmup", description=__doc__)
    found.add_argument("--profile", choices=["P0", *PROFILES], default="P20", help="default %(default)s")
    found.add_argument("--files", type=int, default=14, help="of 146.6 MB each (default %(default)s)")
    found.add_argument("--turns", type=int, default=5, help="runs of each (default %(default)s)")
    found.add_argument("--cache-dir", type=Path, default=Path("/var/tmp"), help="default %(default)s")
    found.add_argument("--data-dir", type=Path, default=Path("/dev/shm"), help="tmpfs (default %(default)s)")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print every sample and the ratio of the medians; return the exit code."""
    options = parser().parse_args(argv)
    compared = WarmUp(Corpus(options.files, SHARD_BYTES, 1), (options.profile,))
    scale = replace(SCALES["brief"], warmups=(compared,), repeats=options.turns, case_seconds=float("inf"))
    rows = Run(options.cache_dir, options.data_dir, scale).rows(warmup.measure_copies)
    medians = {row.system: row.median for row in rows}
    for row in rows:
        _show(row)
    print(f"{STOKER} takes {medians[STOKER] / medians[S5CMD]:.2f} of the time of {S5CMD} (medians)")
    return 0


def _show(row: Row) -> None:
    runs = ", ".join(f"{value:.2f}" for value in row.samples)
    cpu, server = (median(cost.cpu for cost in row.costs), median(cost.server_cpu for cost in row.costs))
    gets = median(cost.gets for cost in row.costs)
    print(f"{row.system:7} {row.median:.2f} s ({runs}); CPU {cpu:.2f} s, server {server:.2f} s, {gets:.0f} GETs")


if __name__ == "__main__":
    sys.exit(main())

"""`python -m bench run [WORKLOAD ...]` measures, prints tables and targets, writes JSON; `page` writes docs/PERFORMANCE.md of such runs."""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from bench.environment import Environment
from bench.errors import BenchError, UsageError
from bench.machine import describe
from bench.page import markdown, targets_table
from bench.plot import curves, draw
from bench.report import Report, Row, columns, combined, from_json, table, to_json
from bench.scale import scale
from bench.server import S3Server
from bench.targets import Reason, judge, reasons
from bench.workloads import (
    epochs,
    firstbatch,
    gpus,
    idle,
    large,
    memory,
    metadata,
    partial,
    preads,
    sharing,
    storm,
    switch,
    warmup,
)
from e2e.cluster.errors import HarnessError
from stoker_sidecar.errors import SidecarError

_WORKLOADS: dict[str, Callable[[Environment], Iterator[Row]]] = {
    "B1": epochs.measure,
    "B2": large.measure,
    "B3": partial.measure,
    "B4": preads.measure,
    "B5": metadata.measure,
    "B6": warmup.measure,
    "B7": sharing.measure,
    "B8": firstbatch.measure,
    "B10": switch.measure,
    "storm": storm.measure,
    "idle": idle.measure,
    "memory": memory.measure,
    "gpus": gpus.measure,
}
_REASONS = Path(__file__).parent / "reasons.toml"
_PICTURE = Path("img") / "gpus.svg"  # seen from the page
_RESULTS = Path(__file__).parent / "results" / "latest.json"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    page = commands.add_parser("page", help="write the page of runs that were measured one after the other")
    page.add_argument("results", nargs="+", type=Path, metavar="JSON", help="what runs wrote with --json")
    page.add_argument("--write", type=Path, metavar="PAGE", required=True, help="such as docs/PERFORMANCE.md")
    page.set_defaults(act=_page)
    run = commands.add_parser("run", help="measure and print a table")
    run.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(_WORKLOADS)}; default: all")
    size = run.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="scale", action="store_const", const="quick", help="a little, once: a smoke test")
    size.add_argument(
        "--full", dest="scale", action="store_const", const="full", help="all sizes and profiles, 5 times"
    )
    run.add_argument("--json", type=Path, default=_RESULTS, help="where every sample goes (default: bench/results)")
    run.add_argument(
        "--write", type=Path, metavar="PAGE", help="write the page for people, such as docs/PERFORMANCE.md"
    )
    run.add_argument(
        "--cache-dir", type=Path, default=Path("/var/tmp"), help="on the disk to measure (default %(default)s)"
    )
    run.add_argument(
        "--data-dir", type=Path, default=Path("/dev/shm"), help="the server's, on tmpfs (default %(default)s)"
    )
    run.set_defaults(act=_run, scale="default")
    return parser


def _chosen(workloads: Sequence[str]) -> list[str]:
    unknown = sorted(set(workloads) - set(_WORKLOADS))
    if unknown:
        raise UsageError(f"there is no workload {', '.join(unknown)}: choose from {', '.join(_WORKLOADS)}")
    return [name for name in _WORKLOADS if name in (workloads or _WORKLOADS)]


@contextlib.contextmanager
def _folder(parent: Path, name: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=name, dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(options: argparse.Namespace) -> tuple[Row, ...]:
    start = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - start:5.0f} s] {line}", file=sys.stderr, flush=True)

    with (
        _folder(options.cache_dir, "skb-") as scratch,
        _folder(options.data_dir, "skb-") as data,
        S3Server(data) as server,
    ):
        env = Environment(server, scratch, scale(options.scale), say)
        rows = tuple(row for name in _chosen(options.workloads) for row in _WORKLOADS[name](env))
        say("cleaning up")
    return rows


def _run(options: argparse.Namespace) -> None:
    if os.geteuid():
        raise UsageError("benchmarks mount file systems and drop the page cache: run them as root")
    machine = describe(options.cache_dir)
    report = Report(_command(options), machine, _measure(options))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(to_json(report))
    _show(report)
    if options.write is not None:
        _write(report, options.write)


def _page(options: argparse.Namespace) -> None:
    try:
        report = combined([from_json(result.read_text()) for result in options.results])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"what `run --json` wrote was expected in {', '.join(map(str, options.results))}: {error!r}"
        ) from error
    _show(report)
    _write(report, options.write)


def _show(report: Report) -> None:
    print(table(report))
    if verdicts := judge(report.rows):
        print("\n".join(["", *columns(targets_table(verdicts, _reasons()))]))


def _write(report: Report, page: Path) -> None:
    page.write_text(markdown(report, judge(report.rows), _reasons(), _draw(report, page)))


def _reasons() -> Mapping[str, Reason]:
    return reasons(tomllib.loads(_REASONS.read_text()))


def _draw(report: Report, page: Path) -> str:
    """Draw the picture beside the page; return where it is, seen from there, or "" when there is nothing to draw."""
    found = curves(report.rows)
    if not found:
        return ""
    draw(found, page.parent / _PICTURE)
    return str(_PICTURE)


def _command(options: argparse.Namespace) -> str:
    words = ["python -m bench run", *options.workloads]
    words += [] if options.scale == "default" else [f"--{options.scale}"]
    return " ".join(words + ([f"--write {options.write}"] if options.write else []))


def _interrupted(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # so that every context is left in order


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = _parser().parse_args(argv)
    # Children are in sessions of their own, so that Ctrl-C reaches this process alone, which ends them in order.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    try:
        options.act(options)
    except (BenchError, HarnessError, SidecarError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

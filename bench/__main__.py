"""Benchmarks.

`run` measures, `page` writes docs/performance/README.md and a page a workload, `compare` puts two runs side by side.
"""

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from bench.errors import BenchError, UsageError
from bench.machine import describe, origin
from bench.page import targets_table
from bench.publishing import draw_plots, keep, known_reasons, read_report, write_pages
from bench.report import Origin, Report, Row, to_json
from bench.runner import Run, chosen
from bench.scale import SCALES, Scale, sized
from bench.tables import columns, compared, table
from bench.targets import judge
from bench.workloads import WORKLOADS
from e2e.cluster.errors import HarnessError
from stoker_sidecar.errors import SidecarError

_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
_RESULTS = Path(__file__).parent / "results" / "latest.json"
_DOCS = Path(__file__).resolve().parents[1] / "docs"
_CUT_SHORT = "the run was cut short, and these are the figures that it had by then"
_SCALES_HELP = {
    "quick": "a little, once: a smoke test",
    "brief": "less, several times: to compare two commits in some minutes a workload",
    "full": "all sizes and profiles, 5 times (hours)",
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    _add_run(commands)
    _add_reports(commands)
    return top


def _add_run(commands: _Commands) -> None:
    """Add the command that measures the figures of the targets."""
    run = commands.add_parser("run", help="measure and print a table")
    run.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(WORKLOADS)}; default: all")
    size = run.add_mutually_exclusive_group()
    for name, text in _SCALES_HELP.items():
        size.add_argument(f"--{name}", dest="scale", action="store_const", const=name, help=text)
    run.add_argument("--repeats", type=int, metavar="N", help="samples of each figure at most, in place of the scale's")
    run.add_argument("--case-seconds", type=float, metavar="S", help="start no sample of a figure after this time")
    run.add_argument(
        "--nodes",
        type=int,
        action="append",
        metavar="N",
        help="a size of the simulated cluster, and of peers that share, in place of the scale's",
    )
    run.add_argument(
        "--churn",
        type=float,
        default=0.0,
        metavar="S",
        help="let pods and nodes of the simulated cluster come and go for so many seconds (3600: an hour) as well, at "
        "each size, and follow the operator's memory",
    )
    run.add_argument("--json", type=Path, default=_RESULTS, help="where every sample goes (default: bench/results)")
    run.add_argument("--write", action="store_true", help="keep the figures in docs/performance and write the pages")
    run.add_argument("--cache-dir", type=Path, default=Path("/var/tmp"), help="on the disk to measure (%(default)s)")
    run.add_argument("--data-dir", type=Path, default=Path("/dev/shm"), help="the server's, on tmpfs (%(default)s)")
    _add_docs(run)
    run.set_defaults(act=_run, scale="default")


def _add_reports(commands: _Commands) -> None:
    """Add the commands that process the results of runs."""
    page = commands.add_parser("page", help="write the pages anew, with figures that runs wrote with --json")
    page.add_argument("results", nargs="*", type=Path, metavar="JSON", help="default: just those that are kept already")
    _add_docs(page)
    page.set_defaults(act=_page)
    compare = commands.add_parser("compare", help="put two runs side by side")
    compare.add_argument("before", type=Path, metavar="JSON")
    compare.add_argument("after", type=Path, metavar="JSON")
    compare.set_defaults(act=_compare)


def _add_docs(command: argparse.ArgumentParser) -> None:
    command.add_argument("--docs", type=Path, default=_DOCS, help="folder of the documents (default: docs)")


def _run(options: argparse.Namespace) -> None:
    if os.geteuid():
        raise UsageError("benchmarks mount file systems and drop the page cache: run them as root")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # starts use compiled modules, as in the image
    workloads = chosen(options.workloads)
    source = origin(_command(options), options.scale)
    if options.write and not source.published:
        raise UsageError("--write needs a checkout without changes: commit them, or measure without --write")
    sizes = tuple(sorted(options.nodes or ()))
    scale = sized(SCALES[options.scale], options.repeats, options.case_seconds, sizes, options.churn)
    report = _measured(options, source, scale, workloads)
    print(table(report))
    for plot in draw_plots(report, options.json.parent):
        print(f"drawn: {plot}")
    if verdicts := judge(report.rows):
        print("\n".join(["", *columns(targets_table(verdicts, known_reasons()))]))
    if options.write:
        keep(report, options.docs)
        write_pages(options.docs)


def _measured(options: argparse.Namespace, source: Origin, scale: Scale, workloads: Sequence[str]) -> Report:
    """Measure. Write all figures so far to the results file, so that an interrupted run keeps them."""
    machine = describe(options.cache_dir)
    early = Report(replace(source, remark=_CUT_SHORT), machine, ())
    options.json.parent.mkdir(parents=True, exist_ok=True)

    def note(rows: Sequence[Row]) -> None:
        nonlocal early
        early = replace(early, rows=tuple(rows))
        whole = options.json.with_name(f"{options.json.name}.new")
        whole.write_text(to_json(early))
        whole.replace(options.json)

    try:
        rows = Run(options.cache_dir, options.data_dir, scale, note).measure(workloads)
    except BaseException:  # on interrupts as well
        if early.rows:
            print(f"{table(early)}\n{_CUT_SHORT}; the figures are in {options.json}")
        raise
    report = Report(source, machine, rows)
    options.json.write_text(to_json(report))
    return report


def _page(options: argparse.Namespace) -> None:
    for report in [read_report(result) for result in options.results]:
        keep(report, options.docs)
    write_pages(options.docs)


def _compare(options: argparse.Namespace) -> None:
    before, after = read_report(options.before), read_report(options.after)
    print("\n".join(columns(compared(before.rows, after.rows))))


def _command(options: argparse.Namespace) -> str:
    """Return the command line that repeats the run, quoted for a shell."""
    words = ["python", "-m", "bench", "run", *options.workloads]
    words += [] if options.scale == "default" else [f"--{options.scale}"]
    words += [] if options.repeats is None else ["--repeats", str(options.repeats)]
    words += [] if options.case_seconds is None else ["--case-seconds", f"{options.case_seconds:g}"]
    words += [word for nodes in options.nodes or () for word in ("--nodes", str(nodes))]
    words += ["--churn", f"{options.churn:g}"] if options.churn else []
    return shlex.join(words)


def _interrupted(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # so that every context manager exits


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = parser().parse_args(argv)
    # Children run in their own sessions. Ctrl-C reaches only this process, which stops them in order.
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

"""Benchmarks.

`run` measures, `page` writes docs/PERFORMANCE.md and a page a workload, `compare` puts two runs side by side.
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

from bench.coldstart.measurement import measure_start, show_start
from bench.comparison import compared
from bench.control_plane import CLUSTERS, DATASETS, EVERYWHERE, measure_clusters, show_clusters
from bench.errors import BenchError, UsageError
from bench.gate_loop import measure_loop, show_loop
from bench.gate_passes import GATE_SIZES, measure_gate, show_gate
from bench.machine import describe
from bench.name_costs import NAME_FILES, measure_names, show_names
from bench.order_costs import ORDER_SAMPLES, measure_orders, show_orders
from bench.origin import origin
from bench.page import targets_table
from bench.page_order import FILES as ORDERED_FILES
from bench.page_order import measure_ways, show_ways
from bench.passes import SIZES, measure, show
from bench.publishing import draw_plots, keep, known_reasons, read_report, write_pages
from bench.report import Report, Row, to_json
from bench.rule_costs import FILES, RULES, measure_rules, show_rules
from bench.runner import Run, chosen
from bench.scale import SCALES, Scale, sized
from bench.shuffle import SAMPLES, SEEDS, measure_shuffles, show_shuffles
from bench.tables import columns, table
from bench.targets import judge
from bench.webhook_waits import REPORTS, measure_waits, show_waits
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
    _add_operators(commands)
    _add_nodes(commands)
    return top


def _add_run(commands: _Commands) -> None:
    """Add the command that measures what the targets are about."""
    run = commands.add_parser("run", help="measure and print a table")
    run.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(WORKLOADS)}; default: all")
    size = run.add_mutually_exclusive_group()
    for name, text in _SCALES_HELP.items():
        size.add_argument(f"--{name}", dest="scale", action="store_const", const=name, help=text)
    run.add_argument("--repeats", type=int, metavar="N", help="samples of each figure at most, in place of the scale's")
    run.add_argument(
        "--case-seconds", type=float, metavar="S", help="no more samples of a figure after this long, in place of it"
    )
    run.add_argument(
        "--nodes",
        type=int,
        action="append",
        metavar="N",
        help="a size of the simulated cluster, and of neighbours that share, in place of the scale's",
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
    _add_cache_dir(run)
    run.add_argument(
        "--data-dir", type=Path, default=Path("/dev/shm"), help="the server's, on tmpfs (default %(default)s)"
    )
    _add_docs(run)
    run.set_defaults(act=_run, scale="default")


def _add_reports(commands: _Commands) -> None:
    """Add the commands that go on with what runs wrote."""
    page = commands.add_parser("page", help="write the pages anew, with figures that runs wrote with --json")
    page.add_argument("results", nargs="*", type=Path, metavar="JSON", help="default: just those that are kept already")
    _add_docs(page)
    page.set_defaults(act=_page)
    compare = commands.add_parser("compare", help="put two runs side by side")
    compare.add_argument("before", type=Path, metavar="JSON")
    compare.add_argument("after", type=Path, metavar="JSON")
    compare.set_defaults(act=_compare)


def _add_operators(commands: _Commands) -> None:
    """Add the commands that measure the operator by the size of the cluster."""
    sizes = commands.add_parser("passes", help="measure what the operator's decisions cost by the size of the cluster")
    sizes.add_argument("nodes", nargs="*", type=int, metavar="NODES", help=f"default: {' '.join(map(str, SIZES))}")
    _add_json(sizes, "passes")
    sizes.set_defaults(act=_passes)
    control = commands.add_parser(
        "dataset-passes", help="measure what the pass over Datasets costs, of everything and of one change"
    )
    control.add_argument("nodes", nargs="*", type=int, metavar="NODES", help=f"default: {' '.join(map(str, CLUSTERS))}")
    control.add_argument(
        "--datasets", type=int, default=DATASETS, metavar="N", help="of 3 replicas; default: %(default)s"
    )
    control.add_argument("--everywhere", type=int, default=EVERYWHERE, metavar="N", help="on all nodes; %(default)s")
    _add_json(control, "dataset-passes")
    control.set_defaults(act=_control_plane)
    start = commands.add_parser(
        "cold-start", help="measure what a start of the operator costs in a warm cluster, by part"
    )
    start.add_argument("nodes", nargs="?", type=int, default=5000, metavar="NODES", help="default: %(default)s")
    start.add_argument(
        "--datasets", type=int, default=DATASETS, metavar="N", help="of 3 replicas; default: %(default)s"
    )
    start.add_argument("--everywhere", type=int, default=EVERYWHERE, metavar="N", help="on all nodes; %(default)s")
    _add_json(start, "cold-start")
    start.set_defaults(act=_cold_start)
    gate = commands.add_parser("gate", help="measure what decisions on held pods cost by the size of the cluster")
    gate.add_argument("nodes", nargs="*", type=int, metavar="NODES", help=f"default: {' '.join(map(str, GATE_SIZES))}")
    _add_json(gate, "gate")
    gate.set_defaults(act=_gate)
    lag = commands.add_parser("gate-loop", help="measure what gating leaves of the event loop, while all nodes report")
    lag.add_argument("nodes", nargs="?", type=int, default=5000, metavar="NODES", help="default: %(default)s")
    lag.set_defaults(act=_gate_loop)
    waits = commands.add_parser("webhook-waits", help="measure what a review waits for, while nodes report")
    waits.add_argument("nodes", nargs="?", type=int, default=1000, metavar="NODES", help="default: %(default)s")
    waits.add_argument("--seconds", type=float, default=20.0, metavar="S", help="default: %(default)s")
    waits.add_argument(
        "--reports", type=float, default=REPORTS, metavar="N", help="of nodes, a second; default: %(default)s"
    )
    waits.add_argument("--everywhere", type=int, default=EVERYWHERE, metavar="N", help="on all nodes; %(default)s")
    waits.set_defaults(act=_webhook_waits)


def _add_nodes(commands: _Commands) -> None:
    """Add the commands that measure one thing of what nodes do."""
    rules = commands.add_parser("rules", help="measure what tuning rules cost by the number of files")
    rules.add_argument("--files", type=int, default=FILES, metavar="N", help="default: %(default)s")
    rules.add_argument("--rules", type=int, default=RULES, metavar="N", help="default: %(default)s")
    _add_json(rules, "rules")
    rules.set_defaults(act=_rules)
    orders = commands.add_parser("orders", help="measure what it costs to know the order of a training job")
    orders.add_argument(
        "samples", nargs="*", type=int, metavar="N", help=f"default: {' '.join(map(str, ORDER_SAMPLES))}"
    )
    _add_json(orders, "orders")
    orders.set_defaults(act=_orders)
    ahead = commands.add_parser(
        "pages-ahead", help="measure ways to read ahead of a reader with little memory, as root"
    )
    ahead.add_argument("--files", type=int, default=ORDERED_FILES, metavar="N", help="default: %(default)s")
    _add_cache_dir(ahead)
    _add_json(ahead, "pages-ahead")
    ahead.set_defaults(act=_pages_ahead)
    shuffle = commands.add_parser("shuffle", help="measure what a shuffle of groups merges, and how random it is")
    shuffle.add_argument("--samples", type=int, default=SAMPLES, metavar="N", help="default: %(default)s")
    shuffle.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help="default: %(default)s")
    _add_json(shuffle, "shuffle")
    shuffle.set_defaults(act=_shuffle)
    held = commands.add_parser("names", help="measure what it gains to hold names in memory (root)")
    held.add_argument("--files", type=int, default=NAME_FILES, metavar="N", help="default: %(default)s")
    _add_cache_dir(held)
    _add_json(held, "names")
    held.set_defaults(act=_names)


def _add_json(command: argparse.ArgumentParser, name: str) -> None:
    command.add_argument("--json", type=Path, default=_RESULTS.with_name(f"{name}.json"), help="where the figures go")


def _add_cache_dir(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--cache-dir", type=Path, default=Path("/var/tmp"), help="on the disk to measure (default %(default)s)"
    )


def _add_docs(command: argparse.ArgumentParser) -> None:
    command.add_argument("--docs", type=Path, default=_DOCS, help="folder of the documents (default: docs)")


def _run(options: argparse.Namespace) -> None:
    if os.geteuid():
        raise UsageError("benchmarks mount file systems and drop the page cache: run them as root")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # starts are those of compiled modules, which the image has
    workloads = chosen(options.workloads)
    sizes = tuple(sorted(options.nodes or ()))
    scale = sized(SCALES[options.scale], options.repeats, options.case_seconds, sizes, options.churn)
    report = _measured(options, scale, workloads)
    print(table(report))
    for plot in draw_plots(report, options.json.parent):
        print(f"drawn: {plot}")
    if verdicts := judge(report.rows):
        print("\n".join(["", *columns(targets_table(verdicts, known_reasons()))]))
    if options.write:
        keep(report, options.docs)
        write_pages(options.docs)


def _measured(options: argparse.Namespace, scale: Scale, workloads: Sequence[str]) -> Report:
    """Measure, with all figures so far in the file of results, lest a run that is cut short lose them."""
    source, machine = origin(_command(options), options.scale), describe(options.cache_dir)
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
    except BaseException:  # interrupted, too
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


def _passes(options: argparse.Namespace) -> None:
    print(show(measure(options.nodes or SIZES), options.json))


def _control_plane(options: argparse.Namespace) -> None:
    costs = measure_clusters(options.nodes or CLUSTERS, options.datasets, options.everywhere)
    print(show_clusters(costs, options.json))


def _cold_start(options: argparse.Namespace) -> None:
    print(show_start(measure_start(options.nodes, options.datasets, options.everywhere), options.json))


def _rules(options: argparse.Namespace) -> None:
    print(show_rules(measure_rules(options.files, options.rules), options.json))


def _gate(options: argparse.Namespace) -> None:
    print(show_gate(*measure_gate(options.nodes or GATE_SIZES), options.json))


def _gate_loop(options: argparse.Namespace) -> None:
    print(show_loop(measure_loop(options.nodes)))


def _webhook_waits(options: argparse.Namespace) -> None:
    print(show_waits(measure_waits(options.nodes, options.seconds, options.reports, options.everywhere)))


def _orders(options: argparse.Namespace) -> None:
    print(show_orders(measure_orders(options.samples or ORDER_SAMPLES), options.json))


def _pages_ahead(options: argparse.Namespace) -> None:
    print(show_ways(measure_ways(options.cache_dir, options.files), options.json))


def _shuffle(options: argparse.Namespace) -> None:
    print(show_shuffles(measure_shuffles(options.samples, options.seeds), options.json))


def _names(options: argparse.Namespace) -> None:
    print(show_names(measure_names(options.files, options.cache_dir), options.json))


def _command(options: argparse.Namespace) -> str:
    """Write the command that measures the same again, as a shell takes it."""
    words = ["python", "-m", "bench", "run", *options.workloads]
    words += [] if options.scale == "default" else [f"--{options.scale}"]
    words += [] if options.repeats is None else ["--repeats", str(options.repeats)]
    words += [] if options.case_seconds is None else ["--case-seconds", f"{options.case_seconds:g}"]
    words += [word for nodes in options.nodes or () for word in ("--nodes", str(nodes))]
    words += ["--churn", f"{options.churn:g}"] if options.churn else []
    return shlex.join(words)


def _interrupted(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # so that every context is left in order


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = parser().parse_args(argv)
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

"""What neighbours that lie, stall, break off and die cost, and whether anybody reads a wrong byte for it."""

import logging
from collections.abc import Iterator

from bench.environment import Environment
from bench.peer_faults import Summary, summaries
from bench.report import Row
from bench.systems import STOKER

WORKLOAD = "faults"
WITHOUT = "Stoker, no faults"
_NODES = 4  # of which two are faulty
_SENT, _SECONDS = "x the data sent by the source", "s until all have it"


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows once so many faults were made as the scale says, or it is interrupted."""
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # it tells of each connection that breaks off
    known = None
    try:
        for summary in summaries(env.scale.faults, _NODES, env.say):
            known = summary
    except KeyboardInterrupt:
        if known is not None:
            yield from rows(known)
        raise
    if known is not None:
        yield from rows(known)


def rows(summary: Summary) -> Iterator[Row]:
    """Yield what pairs of runs came to."""
    case = f"{_NODES} nodes, every second one faulty"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in summary.faults.most_common())
    yield Row(WORKLOAD, case, STOKER, "faults", (float(summary.faults.total()),), note=kinds)
    yield Row(WORKLOAD, case, STOKER, "wrong files", (float(summary.wrong),))
    yield Row(WORKLOAD, case, STOKER, "failed reads", (float(summary.failed),), note=f"of {summary.reads:,}")
    yield Row(WORKLOAD, case, STOKER, "runs without an end", (float(summary.over),))
    if not summary.pairs:
        return
    for system, runs in (WITHOUT, [one.good for one in summary.pairs]), (STOKER, [one.bad for one in summary.pairs]):
        yield Row(WORKLOAD, case, system, _SECONDS, tuple(run.seconds for run in runs), WITHOUT)
        yield Row(WORKLOAD, case, system, _SENT, tuple(run.sent / summary.total for run in runs))

"""B10: readers with open files and maps while their dataset becomes complete and processes are killed."""

import time
from collections.abc import Iterator
from functools import partial

from bench.environment import Environment
from bench.measure import wait_until
from bench.node import WARM_SECONDS, Node, mode
from bench.report import Row
from bench.systems import STOKER, cold_volume
from bench.verifier import Findings, Verifiers
from stoker_api.datasets.dataset import MountMode

_READERS = 4
_AFTER_SECONDS = 1.0  # seconds of reads on the new mount


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows on the findings of readers, and on the time until new opens were native."""
    corpus = env.scale.images
    native: list[float] = []
    seen = Findings()
    with env.corpus("b10", corpus) as prefix:
        for _ in env.repeat("B10: a dataset becomes whole under readers"):
            with env.node() as node:
                seconds, findings = _switched(env, node, prefix)
            native.append(seconds)
            seen.add(findings)
    case = f"{_READERS} readers, {corpus.files:,} files become whole"
    yield Row("B10", case, STOKER, "s from the last file to native opens", tuple(native))
    yield from seen_rows("B10", case, seen)


def _switched(env: Environment, node: Node, prefix: str) -> tuple[float, Findings]:
    """Kill the agent early, so that its successor does the switch, and the FUSE server at half of the files."""
    corpus = env.scale.images
    volume, target = cold_volume(node, prefix)
    with Verifiers(target, corpus, _READERS) as verifiers:
        position = env.server.position()
        node.offer(volume, eager=True)
        for share, name in ((1 / 8, "agent"), (1 / 2, "fs server 1")):
            arrived = partial(_arrived, env, position, round(corpus.files * share))
            wait_until("some of the files", arrived, WARM_SECONDS)
            node.sidecar.kill(name)
        node.wait_warm(volume)
        whole_at = time.monotonic()
        wait_until("native opens", lambda: mode(target) is MountMode.NATIVE, WARM_SECONDS)
        seconds = time.monotonic() - whole_at
        time.sleep(_AFTER_SECONDS)
    return seconds, verifiers.findings


def _arrived(env: Environment, position: int, files: int) -> bool:
    return env.server.asked(position).gets >= files


def seen_rows(workload: str, case: str, seen: Findings, cause: str = "") -> Iterator[Row]:
    """Yield the findings of verifying readers as figures. ``cause`` is that of the longest stall, if known."""
    note = f"of {seen.reads:,}" + (f": {'; '.join(seen.said)}" if seen.said else "")
    yield Row(workload, case, STOKER, "failed reads", (float(seen.failed),), note=note)
    yield Row(workload, case, STOKER, "reads with wrong bytes", (float(seen.wrong),))
    yield Row(workload, case, STOKER, "s of the longest stall", (seen.longest,), note=cause)

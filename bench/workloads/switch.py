"""B10: readers with open files and maps while their dataset becomes whole, and while the FUSE server and the agent are killed."""

import time
from collections.abc import Iterator
from functools import partial

from bench.bed import Bed
from bench.measure import wait_until
from bench.node import WARM_SECONDS, Node, mode
from bench.report import Row
from bench.subjects import STOKER, cold_volume
from bench.verifier import Verdict, Verifiers
from stoker_api.dataset import MountMode

_READERS = 4
_AFTER_SECONDS = 1.0  # that readers go on for with the new mount


def measure(bed: Bed) -> Iterator[Row]:
    """Rows on what readers saw, and on how soon new opens were native."""
    corpus = bed.scale.switched
    native: list[float] = []
    seen = Verdict()
    with bed.corpus("b10", corpus) as prefix:
        for _ in bed.repeat("B10: a dataset becomes whole under readers"):
            with bed.node() as node:
                seconds, verdict = _switched(bed, node, prefix)
            native.append(seconds)
            seen.add(verdict)
    case = f"{_READERS} readers, {corpus.files:,} files become whole"
    yield Row("B10", case, STOKER, "s from the last file to native opens", tuple(native))
    yield from seen_rows("B10", case, seen)


def _switched(bed: Bed, node: Node, prefix: str) -> tuple[float, Verdict]:
    """The agent is killed early, so that it is the next one that switches; the FUSE server is killed at half of the files."""
    corpus = bed.scale.switched
    volume, target = cold_volume(node, prefix)
    with Verifiers(target, corpus, _READERS) as verifiers:
        position = bed.server.position()
        node.offer(volume, eager=True)
        for share, name in ((1 / 8, "agent"), (1 / 2, "fs server 1")):
            arrived = partial(_arrived, bed, position, round(corpus.files * share))
            wait_until("some of the files", arrived, WARM_SECONDS)
            node.sidecar.kill(name)
        node.wait_warm(volume)
        whole_at = time.monotonic()
        wait_until("native opens", lambda: mode(target) is MountMode.NATIVE, WARM_SECONDS)
        seconds = time.monotonic() - whole_at
        time.sleep(_AFTER_SECONDS)
    return seconds, verifiers.verdict


def _arrived(bed: Bed, position: int, files: int) -> bool:
    return bed.server.asked(position).gets >= files


def seen_rows(workload: str, case: str, seen: Verdict, cause: str = "") -> Iterator[Row]:
    """What verifying readers saw, as figures. ``cause``: of the longest stall, where it is known."""
    note = f"of {seen.reads:,}" + (f": {'; '.join(seen.said)}" if seen.said else "")
    yield Row(workload, case, STOKER, "failed reads", (float(seen.failed),), note=note)
    yield Row(workload, case, STOKER, "reads with wrong bytes", (float(seen.wrong),))
    yield Row(workload, case, STOKER, "s of the longest stall", (seen.longest,), note=cause)

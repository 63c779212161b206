"""The kill storm: FUSE servers, fetcher, workers and agent killed again and again under readers that check every byte."""

import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bench.bed import Bed
from bench.measure import drop_clean_pages
from bench.node import Node
from bench.report import Row
from bench.sidecar import Switches
from bench.subjects import STOKER, STOKER_FUSE, STOKER_OVERLAY, cold_volume
from bench.verifier import Verdict, Verifiers
from bench.workloads.switch import seen_rows

_READERS = 4
_QUOTA = 0.5  # so that half of the files always come from the server: an empty cache would be full soon
_SPARED = "keeper"
_PAUSE = (0.2, 0.8)  # seconds in which readers get on: a process that is killed before it has answered shows nothing


class Kill(NamedTuple):
    """``at``: of the machine's monotonic clock."""

    kind: str
    at: float


def measure(bed: Bed) -> Iterator[Row]:
    """Rows for a node that overlays, where it can, and for one that does not."""
    storm = bed.scale.storm
    with bed.corpus("storm", storm.corpus) as prefix:
        for subject, overlay, kills in zip((STOKER_OVERLAY, STOKER_FUSE), (True, False), storm.kills, strict=True):
            with bed.node(switches=Switches(overlay=overlay)) as node:
                if overlay and not node.overlays():
                    bed.say("storm: this node cannot overlay")
                    continue
                done, seen = _storm(bed, node, prefix, kills)
            case = f"{subject}, {_READERS} readers, {len(done)} kills"
            killed = Counter(kill.kind for kill in done)
            note = ", ".join(f"{count} x {kind}" for kind, count in sorted(killed.items()))
            yield Row("storm", case, STOKER, "kills", (float(len(done)),), note=note)
            yield from seen_rows("storm", case, seen, f"after a kill of: {cause(done, seen.longest_at)}")


def _storm(bed: Bed, node: Node, prefix: str, kills: int) -> tuple[list[Kill], Verdict]:
    """Each kill waits until another process has taken the place of the last one."""
    corpus, chance = bed.scale.storm.corpus, random.Random(kills)
    volume, target = cold_volume(node, prefix)
    node.offer(volume, quota=round(corpus.total_bytes * _QUOTA))
    done: list[Kill] = []
    with Verifiers(target, corpus, _READERS) as verifiers:
        for number in range(1, kills + 1):
            if number % 20 == 1:
                bed.say(f"storm: kill {number} of {kills}")
            victim = chance.choice(sorted(set(node.sidecar.pids()) - {_SPARED}))
            done.append(Kill(victim.rstrip(" 0123456789"), time.monotonic()))
            node.sidecar.kill(victim)
            drop_clean_pages()  # so that readers reach our processes, not the page cache
            time.sleep(chance.uniform(*_PAUSE))
    return done, verifiers.verdict


def cause(kills: Iterable[Kill], end: float) -> str:
    """What was killed last before a stall ended; empty for nothing. Pure."""
    return next((kill.kind for kill in reversed(list(kills)) if kill.at <= end), "")

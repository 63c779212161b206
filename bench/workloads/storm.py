"""The kill storm: FUSE servers, fetcher, workers and agent are killed repeatedly under readers that check all bytes."""

import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bench.environment import Environment
from bench.measure import drop_clean_pages
from bench.node import Node
from bench.report import Row
from bench.sidecar import Switches
from bench.systems import STOKER, STOKER_FUSE, STOKER_OVERLAY, cold_volume
from bench.verifier import Findings, Verifiers
from bench.workloads.switch import seen_rows

_READERS = 4
_QUOTA = 0.5  # so that half of the files always come from the server: an empty cache would soon be full
_SPARED = "keeper"
_PAUSE = (0.2, 0.8)  # seconds in which readers advance: killing a process before its first answer shows nothing


class Kill(NamedTuple):
    """A killed process, by kind, and the time on the machine's monotonic clock."""

    kind: str
    at: float


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for a node with overlays, if supported, and for one without."""
    storm = env.scale.storm
    with env.corpus("storm", storm.corpus) as prefix:
        for system, overlay, kills in zip((STOKER_OVERLAY, STOKER_FUSE), (True, False), storm.kills, strict=True):
            with env.node(switches=Switches(overlay=overlay)) as node:
                if overlay and not node.overlays():
                    env.say("storm: this node cannot overlay")
                    continue
                done, seen = _storm(env, node, prefix, kills)
            case = f"{system}, {_READERS} readers, {len(done)} kills"
            killed = Counter(kill.kind for kill in done)
            note = ", ".join(f"{count} x {kind}" for kind, count in sorted(killed.items()))
            yield Row("storm", case, STOKER, "kills", (float(len(done)),), note=note)
            yield from seen_rows("storm", case, seen, f"after a kill of: {cause(done, seen.longest_at)}")


def _storm(env: Environment, node: Node, prefix: str, kills: int) -> tuple[list[Kill], Findings]:
    """Kill repeatedly, each time after the last victim was replaced."""
    corpus, chance = env.scale.storm.corpus, random.Random(kills)
    volume, target = cold_volume(node, prefix)
    node.offer(volume, quota=round(corpus.total_bytes * _QUOTA))
    done: list[Kill] = []
    with Verifiers(target, corpus, _READERS) as verifiers:
        for number in range(1, kills + 1):
            if number % 20 == 1:
                env.say(f"storm: kill {number} of {kills}")
            victim = chance.choice(sorted(set(node.sidecar.pids()) - {_SPARED}))
            done.append(Kill(victim.rstrip(" 0123456789"), time.monotonic()))
            node.sidecar.kill(victim)
            drop_clean_pages()  # so that reads reach the processes, not the page cache
            time.sleep(chance.uniform(*_PAUSE))
    return done, verifiers.findings


def cause(kills: Iterable[Kill], end: float) -> str:
    """Return the last victim before a stall ended, or empty. Pure."""
    return next((kill.kind for kill in reversed(list(kills)) if kill.at <= end), "")

"""The kill storm: FUSE servers, fetcher, workers and agent killed again and again under readers that check every byte."""

import random
from collections.abc import Iterator

from bench.bed import Bed
from bench.measure import drop_clean_pages
from bench.node import Node
from bench.report import Row
from bench.sidecar import Switches
from bench.subjects import STOKER_FUSE, STOKER_OVERLAY, cold_volume
from bench.verifier import Verdict, Verifiers
from bench.workloads.switch import seen_rows

_READERS = 4
_QUOTA = 0.5  # so that half of the files always come from the server: an empty cache would be full soon
_SPARED = "keeper"


def measure(bed: Bed) -> Iterator[Row]:
    """Rows for a node that overlays, where it can, and for one that does not."""
    storm = bed.scale.storm
    with bed.corpus("storm", storm.corpus) as prefix:
        for subject, overlay, kills in zip((STOKER_OVERLAY, STOKER_FUSE), (True, False), storm.kills, strict=True):
            with bed.node(switches=Switches(overlay=overlay)) as node:
                if overlay and not node.overlays():
                    bed.say("storm: this node cannot overlay")
                    continue
                killed, seen = _storm(bed, node, prefix, kills)
            case = f"{subject}, {_READERS} readers, {sum(killed.values())} kills"
            rows = list(seen_rows("storm", case, seen))
            yield Row("storm", case, rows[0].subject, "kills", (float(sum(killed.values())),), note=_in_words(killed))
            yield from rows


def _storm(bed: Bed, node: Node, prefix: str, kills: int) -> tuple[dict[str, int], Verdict]:
    """Each kill waits until another process has taken the place of the last one; how often which was killed."""
    corpus, chance = bed.scale.storm.corpus, random.Random(kills)
    volume, target = cold_volume(node, prefix)
    node.offer(volume, quota=round(corpus.total_bytes * _QUOTA))
    killed: dict[str, int] = {}
    with Verifiers(target, corpus, _READERS) as verifiers:
        for number in range(1, kills + 1):
            if number % 20 == 1:
                bed.say(f"storm: kill {number} of {kills}")
            victim = chance.choice(sorted(set(node.sidecar.pids()) - {_SPARED}))
            node.sidecar.kill(victim)
            kind = victim.rstrip(" 0123456789")
            killed[kind] = killed.get(kind, 0) + 1
            drop_clean_pages()  # so that readers reach our processes, not the page cache
    return killed, verifiers.verdict


def _in_words(killed: dict[str, int]) -> str:
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(killed.items()))

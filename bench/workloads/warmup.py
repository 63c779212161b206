"""B6: the time until everything is on the node, compared with s5cmd, and the repeated fetches after a kill."""

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.environment import Environment
from bench.errors import BenchError
from bench.measure import drop_page_cache, take_memory, wait_until
from bench.node import WARM_SECONDS
from bench.report import Cost, Row
from bench.scale import Corpus
from bench.systems import S5CMD, STOKER

_Run = tuple[float, Cost]  # seconds, and their cost


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows of every corpus and profile of the scale, and of a kill."""
    for warmup in env.scale.warmups:
        with env.corpus("b6", warmup.corpus) as prefix:
            for profile in warmup.profiles:
                yield from _compare(env, warmup.corpus, prefix, profile)
    with env.corpus("b6-killed", env.scale.killed) as prefix:
        yield _after_a_kill(env, env.scale.killed, prefix)


def _compare(env: Environment, corpus: Corpus, prefix: str, profile: str) -> Iterator[Row]:
    sums = "" if corpus.checksums else " with an MD5 only"
    case = f"{corpus.files:,} x {size_in_words(corpus.size)}{sums}, {profile}"
    with env.profile(profile) as endpoint:
        where = (env, corpus, prefix, endpoint)
        runs = env.in_turns(f"B6: {case}", {S5CMD: partial(_peer, *where), STOKER: partial(_ours, *where)})
    for system, mine in runs.items():
        costs = tuple(cost for _, cost in mine)
        rate = corpus.files / min(seconds for seconds, _ in mine)
        note = f"at best {rate:,.0f} objects/s"
        yield Row("B6", case, system, "s", tuple(seconds for seconds, _ in mine), S5CMD, note, costs)


def _peer(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> _Run:
    copy, cost = env.copied(prefix, endpoint, corpus.total_bytes)
    return copy.seconds, cost


def _ours(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> _Run:
    # When ext4 without a journal makes an inode, it skips every inode that was deleted within the last minutes and is
    # still in memory. This is a third of the CPU of a run after another run. Do it before the node starts, so that the
    # node's own programs stay in the page cache.
    drop_page_cache()
    with env.node(endpoint) as node:
        take_memory(corpus.total_bytes)
        with env.meter(node) as meter:
            start = time.monotonic()
            node.warm(node.list_source(prefix))
            seconds = time.monotonic() - start
        return seconds, meter.cost


def _after_a_kill(env: Environment, corpus: Corpus, prefix: str) -> Row:
    """Kill the fetcher at half of the files. Count the objects that were complete on disk and were requested again."""
    env.say("B6: kill -9 of the fetcher in the middle")
    with env.node() as node:
        volume = node.list_source(prefix)
        position = env.server.position()
        node.offer(volume, eager=True)
        half = corpus.files // 2
        wait_until("half of the objects", lambda: env.server.asked(position).gets >= half, WARM_SECONDS)
        node.offer(volume)  # not eager: the next fetcher must not fetch before the finished files are counted
        node.sidecar.kill("fetcher")
        finished = _files(volume.paths.tree)
        position = env.server.position()
        node.warm(volume)
        fetched = env.server.asked(position).fetched
        again = sum(fetched[f"{prefix}/{path}"] for path in finished)
        _check_all_there(volume.paths.tree, corpus)
    note = f"of {len(finished):,} that were finished; {corpus.files - len(finished):,} were left"
    return Row("B6", "kill -9 in the middle", STOKER, "finished files fetched again", (float(again),), note=note)


def _check_all_there(tree: Path, corpus: Corpus) -> None:
    found = len(_files(tree))
    if found != corpus.files:
        raise BenchError(f"{found} of {corpus.files} files are in a tree that is marked as complete")


def _files(tree: Path) -> set[str]:
    return {str(Path(folder, name).relative_to(tree)) for folder, _, names in os.walk(tree) for name in names}


def size_in_words(size: int) -> str:
    """Format a size in KiB, or in MB from a million bytes on."""
    return f"{size / 1e6:.1f} MB" if size >= 10**6 else f"{size / 1024:.0f} KiB"

"""B6: how long until everything is on the node, beside s5cmd; and what a killed fetcher fetches again."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from bench.environment import Environment
from bench.errors import BenchError
from bench.first_touch import take_memory
from bench.measure import drop_page_cache, wait_until
from bench.node import WARM_SECONDS
from bench.peers import s5cmd_copy, warm_s5cmd
from bench.report import Cost, Row
from bench.scale import Corpus
from bench.systems import S5CMD, STOKER

_SPARE_BYTES = 2**28  # for inodes, and for what the systems themselves need
_Run = tuple[float, Cost]  # seconds, and what they cost


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows of every corpus and profile of the scale."""
    yield from measure_copies(env)
    with env.corpus("b6-killed", env.scale.killed) as prefix:
        yield _after_a_kill(env, env.scale.killed, prefix)


def measure_copies(env: Environment) -> Iterator[Row]:
    """Yield the rows of them that compare, without a kill."""
    for warmup in env.scale.warmups:
        with env.corpus("b6", warmup.corpus) as prefix:
            for profile in warmup.profiles:
                yield from _compare(env, warmup.corpus, prefix, profile)


def _compare(env: Environment, corpus: Corpus, prefix: str, profile: str) -> Iterator[Row]:
    case = (
        f"{corpus.files:,} x {size_in_words(corpus.size)}{', ' if corpus.checksums else ' with an MD5 only, '}{profile}"
    )
    systems = {S5CMD: _peer, STOKER: _ours}
    runs: dict[str, list[_Run]] = {system: [] for system in systems}
    with env.profile(profile) as endpoint:
        for system in env.turns(f"B6: {case}", systems):
            runs[system].append(systems[system](env, corpus, prefix, endpoint))
    for system, mine in runs.items():
        costs = tuple(cost for _, cost in mine)
        rate = corpus.files / min(seconds for seconds, _ in mine)
        note = f"at best {rate:,.0f} objects/s"
        yield Row("B6", case, system, "s", tuple(seconds for seconds, _ in mine), S5CMD, note, costs)


def _peer(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> _Run:
    drop_page_cache()  # an earlier run's dirty pages are not this one's; and see _ours
    warm_s5cmd()
    target = env.scratch / "copy"
    _take_memory(corpus)
    with env.meter() as meter:
        copy = s5cmd_copy(env.server, prefix, target, endpoint)
    shutil.rmtree(target)
    return copy.seconds, meter.of_copy(copy)


def _ours(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> _Run:
    # ext4 without a journal passes over every inode that was deleted within the last minutes when it makes a new one,
    # as long as it has them in memory: a third of the CPU of a run that followed another one. Before the node starts:
    # its own programs are not what is read from the disk.
    drop_page_cache()
    with env.node(endpoint) as node:
        _take_memory(corpus)
        with env.meter(node) as meter:
            start = time.monotonic()
            node.warm(node.list_source(prefix))
            seconds = time.monotonic() - start
        return seconds, meter.cost


def _take_memory(corpus: Corpus) -> None:
    """Begin each sample with memory that is the machine's own, whatever its host took back since the one before.

    Without it, what waits longer before it is measured pays more for the same writes: a node takes seconds to start.
    """
    take_memory(corpus.total_bytes + corpus.total_bytes // 4 + _SPARE_BYTES)


def _after_a_kill(env: Environment, corpus: Corpus, prefix: str) -> Row:
    """Kill the fetcher when half is here; count the objects that were whole on the disk and were asked for again."""
    env.say("B6: kill -9 of the fetcher in the middle")
    with env.node() as node:
        volume = node.list_source(prefix)
        position = env.server.position()
        node.offer(volume, eager=True)
        half = corpus.files // 2
        wait_until("half of the objects", lambda: env.server.asked(position).gets >= half, WARM_SECONDS)
        node.offer(
            volume
        )  # so that nothing of this is fetched by the next one before it has been counted what there is
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
    """Write a size in KiB, or in MB from a million bytes on."""
    return f"{size / 1e6:.1f} MB" if size >= 10**6 else f"{size / 1024:.0f} KiB"

"""A cold sequential read by one reader, from stores at several distances, beside a copy by s5cmd. No rules apply."""

from collections.abc import Iterator
from functools import partial

from bench.environment import Environment
from bench.measure import drop_page_cache, take_memory
from bench.objects import paths
from bench.readers import read_epoch
from bench.report import Row, sampled
from bench.scale import Corpus
from bench.systems import S5CMD, STOKER, cold_volume

_PROFILES = {"P1": "1 ms", "P20": "20 ms", "P100": "100 ms"}


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each corpus and distance."""
    for corpus in env.scale.sequential:
        with env.corpus("sequential", corpus) as prefix:
            for profile, delay in _PROFILES.items():
                with env.profile(profile) as endpoint:
                    case = f"{corpus.files} files of {corpus.size / 1e6:g} MB, {delay}"
                    runs = {S5CMD: partial(_copy, env, corpus, prefix, endpoint)}
                    runs[STOKER] = partial(_read, env, corpus, prefix, endpoint)
                    yield from sampled("sequential", case, "MB/s", env.in_turns(f"sequential: {case}", runs), S5CMD)


def _copy(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> float:
    copy, _ = env.copied(prefix, endpoint, corpus.total_bytes)
    return corpus.total_bytes / 1e6 / copy.seconds


def _read(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> float:
    """Read every file in the order of names on a node without any of them."""
    drop_page_cache()
    take_memory(corpus.total_bytes)
    with env.node(endpoint) as node:
        _, target = cold_volume(node, prefix)
        return read_epoch(target, sorted(paths(corpus)), 1, corpus.total_bytes).mb_rate

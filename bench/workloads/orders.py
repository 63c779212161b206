"""B9: a cold epoch of a distributed sampler over a distant source, with a known and an unknown order.

For comparison, ``s5cmd`` copies the same objects from the same place without readers. This is the rate of a good
program without a file system and readers on these cores.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache, wait_until
from bench.node import Node
from bench.readers import Job, read_jobs
from bench.report import Cost, Row
from bench.sampled import BATCH, dealt, epoch_order, sampling
from bench.scale import Corpus
from bench.systems import ORDER_KNOWN, S5CMD, STOKER
from bench.trainer import IMAGES_A_BATCH, SLOWER_STEP_SECONDS, STEP_SECONDS, train
from e2e.cluster.errors import NotReadyError

WRONG = "Stoker, another seed said"
_PROFILE, _LOADERS, _SEED = "P20", 4, 7
_SETTLED_SECONDS = 3.0  # seconds in which files in flight arrive
# A node reports its knowledge of an order within this number of seconds, if an epoch has enough files to detect one.
_TOLD_SECONDS, _TELLING = 25.0, 4_000
_Run = tuple[float, Cost, str]  # files per second, the cost, and a note


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for the rate of an epoch and for an accelerator that is fed at this rate."""
    corpus = env.scale.epochs
    with env.corpus("b9", corpus) as prefix, env.profile(_PROFILE) as endpoint:
        yield from _rates(env, corpus, prefix, endpoint)
        yield _stopped(env, corpus, prefix, endpoint)
        for step in (STEP_SECONDS, SLOWER_STEP_SECONDS):
            yield from _trained(env, corpus, prefix, endpoint, step)


def _rates(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> Iterator[Row]:
    case = f"cold, {_LOADERS} loaders, {_PROFILE}"
    systems = {STOKER: "", ORDER_KNOWN: said(), WRONG: said(seed=_SEED + 1000)}
    jobs, told = epoch_jobs(corpus), _TOLD_SECONDS if corpus.files >= _TELLING else 0.0

    def read(sampling: str) -> _Run:
        with env.node(endpoint) as node:
            root = mounted(node, prefix, sampling)
            with env.meter(node) as meter:
                epoch = read_jobs(root, jobs, corpus.total_bytes)
            return epoch.rate, meter.cost, _said_of(node, told) if sampling else ""

    def copy() -> _Run:
        rate, cost = _copied(env, corpus, prefix, endpoint)
        return rate, cost, "copied, and read by nobody"

    runs: dict[str, Callable[[], _Run]] = {system: partial(read, text) for system, text in systems.items()}
    runs[S5CMD] = copy
    for system, mine in env.in_turns(f"B9: {case}", runs).items():
        rates, costs, notes = zip(*mine, strict=True)
        yield Row("B9", case, system, "files/s", rates, STOKER, notes[-1], costs)
        if system != S5CMD:
            over = tuple(100 * (cost.gets / corpus.files - 1) for cost in costs)
            yield Row("B9", case, system, "over-fetch, % of the epoch", over)


def _copied(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> tuple[float, Cost]:
    """Copy the objects to the cache disk with s5cmd. Return objects per second, and the cost."""
    copy, cost = env.copied(prefix, endpoint)
    return corpus.files / copy.seconds, cost


def _stopped(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> Row:
    """Measure the wasted fetches of a job that ends within an epoch: at most the window."""
    half, over = epoch_order(corpus, _SEED)[: corpus.files // 2], []
    for _ in env.repeat("B9: a job that ends in mid-epoch"):
        with env.node(endpoint) as node, env.meter(node) as meter:
            read_jobs(mounted(node, prefix, said()), dealt(half, _LOADERS), len(half) * corpus.size)
            time.sleep(_SETTLED_SECONDS)
        over.append(100 * (meter.cost.gets - len(half)) / corpus.files)
    return Row("B9", "the job ends in mid-epoch", ORDER_KNOWN, "% of the epoch fetched in vain", tuple(over))


def epoch_jobs(corpus: Corpus, epoch: int = 0) -> list[Job]:
    """Assign an epoch to the loaders."""
    return dealt(epoch_order(corpus, _SEED, epoch), _LOADERS)


def _trained(env: Environment, corpus: Corpus, prefix: str, endpoint: str, step: float) -> Iterator[Row]:
    case = f"cold, {IMAGES_A_BATCH} images a step of {step:.3f} s, {_PROFILE}"
    order = epoch_order(corpus, _SEED)

    def fed(sampling: str) -> float:
        with env.node(endpoint) as node:
            return train(mounted(node, prefix, sampling), [order], step=step).utilisation

    def copied() -> float:
        return most_utilisation(corpus.files, _copied(env, corpus, prefix, endpoint)[0], step)

    runs: dict[str, Callable[[], float]] = {
        STOKER: partial(fed, ""),
        ORDER_KNOWN: partial(fed, said(batch=IMAGES_A_BATCH)),
        S5CMD: copied,
    }
    notes = {S5CMD: "reckoned from its files/s: an accelerator that waits for no reader"}
    for system, measured in env.in_turns(f"B9: {case}", runs).items():
        note = notes.get(system, "")
        yield Row("B9", case, system, "accelerator utilisation", tuple(measured), STOKER, note)


def most_utilisation(files: int, rate: float, step: float = STEP_SECONDS) -> float:
    """Return the highest utilization of an accelerator whose images arrive at ``rate`` per second. Pure.

    ``step`` is the seconds of computation per batch. Computation starts with the first complete batch, and the last
    batch starts when the last image has arrived.
    """
    batch = min(files, IMAGES_A_BATCH)
    compute, last = files / IMAGES_A_BATCH * step, batch / IMAGES_A_BATCH * step
    return compute / max(compute + batch / rate, files / rate + last)


def said(seed: int = _SEED, batch: int = BATCH) -> str:
    """Return the pod's sampling attribute."""
    return sampling(seed, _LOADERS, batch=batch)


def mounted(node: Node, prefix: str, sampling: str, quota: int | None = None) -> Path:
    """Mount a new dataset without local files for a pod with this sampling. Reads may start at once."""
    volume = node.list_source(prefix)
    node.offer(volume, quota=quota)
    drop_page_cache()
    return node.publish(volume, sampling)


def _said_of(node: Node, seconds: float) -> str:
    """Return the node's final report about the order. Its status is updated every 10 s."""

    def known() -> bool:
        return any(row.get("order") for row in node.workloads())

    with suppress(NotReadyError):
        wait_until("the node to say what it knows of the order", known, seconds)
    row = next((row for row in node.workloads() if row.get("order")), {})
    return f"order {row.get('order', 'not told')}, agreement {row.get('orderAgreement', '?')} %"

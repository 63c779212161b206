"""B9: a cold epoch of a distributed sampler over a distant source, with a known and an unknown order.

For comparison, ``s5cmd`` copies the same objects from the same place without readers. This is the rate of a good
program without a file system and readers on these cores.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from bench.environment import Environment
from bench.measure import drop_page_cache, wait_until
from bench.node import Node
from bench.readers import Job, read_jobs
from bench.report import Cost, Row
from bench.sampled import BATCH, dealt, epoch_order, sampling
from bench.scale import Corpus
from bench.systems import ORDER_KNOWN, S5CMD, STOKER, new_mount
from bench.trainer import A100, H100, Accelerator, train
from e2e.cluster.errors import NotReadyError

WRONG = "Stoker, another seed said"
SEED = 7
_PROFILE, _LOADERS = "P20", 4
_SETTLED_SECONDS = 3.0  # seconds in which files in flight arrive
# A node reports its knowledge of an order within this number of seconds, if an epoch has enough files to detect one.
_TOLD_SECONDS, _TELLING = 25.0, 4_000
_Run = tuple[float, Cost, str]  # files per second, the cost, and a note


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for the rate of an epoch and for an accelerator that is fed at this rate."""
    corpus = env.scale.epochs
    with env.corpus("b9", corpus) as prefix:
        with env.profile(_PROFILE) as endpoint:
            yield from _rates(env, corpus, prefix, endpoint)
            yield _stopped(env, corpus, prefix, endpoint)
        for accelerator in (H100, A100):
            yield from trained(env, "B9", corpus, prefix, _PROFILE, accelerator)


def _rates(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> Iterator[Row]:
    case = f"cold, {_LOADERS} loaders, {_PROFILE}"
    systems = {STOKER: "", ORDER_KNOWN: said(), WRONG: said(seed=SEED + 1000)}
    jobs, told = epoch_jobs(corpus), _TOLD_SECONDS if corpus.files >= _TELLING else 0.0

    def read(sampling: str) -> _Run:
        drop_page_cache()
        with env.node(endpoint) as node:
            root = new_mount(node, prefix, sampling)
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
    half, over = epoch_order(corpus, SEED)[: corpus.files // 2], []
    for _ in env.repeat("B9: a job that ends in mid-epoch"):
        drop_page_cache()
        with env.node(endpoint) as node, env.meter(node) as meter:
            read_jobs(new_mount(node, prefix, said()), dealt(half, _LOADERS), len(half) * corpus.size)
            time.sleep(_SETTLED_SECONDS)
        over.append(100 * (meter.cost.gets - len(half)) / corpus.files)
    return Row("B9", "the job ends in mid-epoch", ORDER_KNOWN, "% of the epoch fetched in vain", tuple(over))


def epoch_jobs(corpus: Corpus, epoch: int = 0) -> list[Job]:
    """Assign an epoch to the loaders."""
    return dealt(epoch_order(corpus, SEED, epoch), _LOADERS)


def trained(
    env: Environment, workload: str, corpus: Corpus, prefix: str, profile: str, accelerator: Accelerator
) -> Iterator[Row]:
    """Yield the utilization of an accelerator in a cold epoch, with a known and an unknown order.

    The row of s5cmd has the limit of its rate.
    """
    case = f"cold, {accelerator.says}, {profile}"
    order = epoch_order(corpus, SEED)

    def fed(sampling: str) -> float:
        drop_page_cache()
        with env.node(endpoint) as node:
            return train(new_mount(node, prefix, sampling), [order], accelerator.batch, accelerator.step).utilisation

    def copied() -> float:
        return most_utilisation(corpus.files, _copied(env, corpus, prefix, endpoint)[0], accelerator)

    runs: dict[str, Callable[[], float]] = {
        STOKER: partial(fed, ""),
        ORDER_KNOWN: partial(fed, said(batch=accelerator.batch)),
        S5CMD: copied,
    }
    notes = {S5CMD: "reckoned from its files/s: an accelerator that waits for no reader"}
    with env.profile(profile) as endpoint:
        found = env.in_turns(f"{workload}: {case}", runs)
    for system, measured in found.items():
        note = notes.get(system, "")
        yield Row(workload, case, system, "accelerator utilisation", tuple(measured), STOKER, note)


def most_utilisation(files: int, rate: float, accelerator: Accelerator) -> float:
    """Return the highest utilization of an accelerator whose images arrive at ``rate`` per second. Pure.

    Computation starts with the first complete batch, and the last batch starts when the last image has arrived.
    """
    batch = min(files, accelerator.batch)
    compute, last = files / accelerator.rate, batch / accelerator.rate
    return compute / max(compute + batch / rate, files / rate + last)


def said(seed: int = SEED, batch: int = BATCH) -> str:
    """Return the pod's sampling attribute."""
    return sampling(seed, _LOADERS, batch=batch)


def _said_of(node: Node, seconds: float) -> str:
    """Return the node's final report about the order. Its status is updated every 10 s."""

    def known() -> bool:
        return any(row.get("order") for row in node.workloads())

    with suppress(NotReadyError):
        wait_until("the node to say what it knows of the order", known, seconds)
    row = next((row for row in node.workloads() if row.get("order")), {})
    return f"order {row.get('order', 'not told')}, agreement {row.get('orderAgreement', '?')} %"

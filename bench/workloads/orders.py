"""B9: a cold epoch of a distributed sampler over a distant source, with its order known and without.

``s5cmd`` copies the same objects from the same place beside it, and nobody reads them: what a good program without a
file system and without readers gets on these cores.
"""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache, wait_until
from bench.node import Node
from bench.objects import paths
from bench.peers import s5cmd_copy
from bench.readers import Job, read_jobs
from bench.report import Cost, Row
from bench.scale import Corpus
from bench.systems import ORDER_KNOWN, S5CMD, STOKER
from bench.trainer import IMAGES_A_BATCH, SLOWER_STEP_SECONDS, STEP_SECONDS, train
from e2e.cluster.errors import NotReadyError
from stoker_api.sampling import SampleFilesSpec, Sampling
from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from stoker_orders.sampling_plan import SampleLayout

WRONG = "Stoker, another seed said"
_PROFILE, _LOADERS, _BATCH, _SEED = "P20", 4, 64, 7
_SETTLED_SECONDS = 3.0  # in which what is on its way arrives
# A node says within so many seconds what it knows of an order, if an epoch has so many files that it can be told.
_TOLD_SECONDS, _TELLING = 25.0, 4_000
_FILES = SampleFilesSpec(layout=SampleLayout.SHARDS)  # all files, by name


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for the rate of an epoch and for an accelerator that is fed by it."""
    corpus = env.scale.epochs
    with env.corpus("b9", corpus) as prefix, env.profile(_PROFILE) as endpoint:
        yield from _rates(env, corpus, prefix, endpoint)
        yield _stopped(env, corpus, prefix, endpoint)
        for step in (STEP_SECONDS, SLOWER_STEP_SECONDS):
            yield from _trained(env, corpus, prefix, endpoint, step)


def _rates(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> Iterator[Row]:
    case = f"cold, {_LOADERS} loaders, {_PROFILE}"
    systems = {STOKER: "", ORDER_KNOWN: said(_BATCH), WRONG: said(_BATCH, seed=_SEED + 1000)}
    jobs, told = epoch_jobs(epoch_order(corpus)), _TOLD_SECONDS if corpus.files >= _TELLING else 0.0
    rates: dict[str, list[float]] = {system: [] for system in systems}
    over: dict[str, list[float]] = {system: [] for system in systems}
    costs: dict[str, list[Cost]] = {system: [] for system in systems}
    notes = dict.fromkeys(systems, "")
    copies: list[tuple[float, Cost]] = []
    for system in env.turns(f"B9: {case}", (*systems, S5CMD)):
        if system == S5CMD:
            copies.append(_copied(env, corpus, prefix, endpoint))
            continue
        with env.node(endpoint) as node:
            root = mounted(node, prefix, systems[system])
            with env.meter(node) as meter:
                epoch = read_jobs(root, jobs, corpus.total_bytes)
            rates[system].append(epoch.rate)
            over[system].append(100 * (meter.cost.gets / corpus.files - 1))
            costs[system].append(meter.cost)
            notes[system] = _said_of(node, told) if systems[system] else ""
    for system in systems:
        yield Row("B9", case, system, "files/s", tuple(rates[system]), STOKER, notes[system], tuple(costs[system]))
        yield Row("B9", case, system, "over-fetch, % of the epoch", tuple(over[system]))
    copied, spent = zip(*copies, strict=True)
    yield Row("B9", case, S5CMD, "files/s", copied, STOKER, "copied, and read by nobody", spent)


def _copied(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> tuple[float, Cost]:
    """Have s5cmd copy the objects to the cache disk: objects a second, and what it cost."""
    target = env.scratch / "copy"
    drop_page_cache()
    try:
        with env.meter() as meter:
            copy = s5cmd_copy(env.server, prefix, target, endpoint)
        return corpus.files / copy.seconds, meter.of_copy(copy)
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _stopped(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> Row:
    """Measure what is fetched in vain by a job that ends in the middle of an epoch: at most the window."""
    half, over = epoch_order(corpus)[: corpus.files // 2], []
    for _ in env.repeat("B9: a job that ends in mid-epoch"):
        with env.node(endpoint) as node, env.meter(node) as meter:
            read_jobs(mounted(node, prefix, said(_BATCH)), epoch_jobs(half), len(half) * corpus.size)
            time.sleep(_SETTLED_SECONDS)
        over.append(100 * (meter.cost.gets - len(half)) / corpus.files)
    return Row("B9", "the job ends in mid-epoch", ORDER_KNOWN, "% of the epoch fetched in vain", tuple(over))


def epoch_jobs(order: Sequence[str]) -> list[Job]:
    """Deal an epoch's batches out to the loaders, as PyTorch's DataLoader does."""
    batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
    return [Job([path for batch in batches[one::_LOADERS] for path in batch]) for one in range(_LOADERS)]


def _trained(env: Environment, corpus: Corpus, prefix: str, endpoint: str, step: float) -> Iterator[Row]:
    case = f"cold, {IMAGES_A_BATCH} images a step of {step:.3f} s, {_PROFILE}"
    order, systems = epoch_order(corpus), {STOKER: "", ORDER_KNOWN: said(IMAGES_A_BATCH)}
    shares: dict[str, list[float]] = {system: [] for system in (*systems, S5CMD)}
    for system in env.turns(f"B9: {case}", shares):
        if system == S5CMD:
            shares[system].append(most_utilisation(corpus.files, _copied(env, corpus, prefix, endpoint)[0], step))
            continue
        with env.node(endpoint) as node:
            root = mounted(node, prefix, systems[system])
            shares[system].append(train(root, [order], step=step).utilisation)
    notes = {S5CMD: "reckoned from its files/s: an accelerator that waits for no reader"}
    for system, measured in shares.items():
        note = notes.get(system, "")
        yield Row("B9", case, system, "accelerator utilisation", tuple(measured), STOKER, note)


def most_utilisation(files: int, rate: float, step: float = STEP_SECONDS) -> float:
    """Return the most utilisation of an accelerator whose images come at ``rate`` a second. Pure.

    ``step``: seconds that it computes for a batch. It begins when the first batch is there, and computes its last one
    when the last image is there.
    """
    batch = min(files, IMAGES_A_BATCH)
    compute, last = files / IMAGES_A_BATCH * step, batch / IMAGES_A_BATCH * step
    return compute / max(compute + batch / rate, files / rate + last)


def epoch_order(corpus: Corpus, epoch: int = 0) -> list[str]:
    """Return the files in the order of a DistributedSampler of one rank."""
    files = sorted(paths(corpus))
    return [files[number] for number in SAMPLERS[SamplerName.TORCH_DISTRIBUTED].order(len(files), _SEED + epoch, epoch)]


def said(batch: int = _BATCH, seed: int = _SEED) -> str:
    """Return what the pod says of its sampling."""
    return Sampling(seed=seed, batch=batch, loaders=_LOADERS, epochs=3, ranks=1, files=_FILES).text()


def mounted(node: Node, prefix: str, sampling: str, quota: int | None = None) -> Path:
    """Mount a new dataset with nothing on the node for a pod that says this of its sampling; read from at once."""
    volume = node.list_source(prefix)
    node.offer(volume, quota=quota)
    drop_page_cache()
    return node.publish(volume, sampling)


def _said_of(node: Node, seconds: float) -> str:
    """Return what the node says of the order in the end: its status is looked at every 10 s."""

    def known() -> bool:
        return any(row.get("order") for row in node.workloads())

    with suppress(NotReadyError):
        wait_until("the node to say what it knows of the order", known, seconds)
    row = next((row for row in node.workloads() if row.get("order")), {})
    return f"order {row.get('order', 'not told')}, agreement {row.get('orderAgreement', '?')} %"

"""B7: how often the server sends a byte, when several readers of a cold node, or two nodes, want all of them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

from bench.environment import Environment
from bench.errors import BenchError
from bench.measure import drop_page_cache
from bench.objects import paths
from bench.readers import Epoch, Job, read_jobs
from bench.report import Row
from bench.scale import Corpus
from bench.sidecar import Switches
from bench.systems import STOKER, cold_volume
from bench.variants.fetcher import EACH_FOR_ITSELF
from bench.workloads.epochs import Orders

_READERS = 4
_UNIT = "x the data sent by the server, a node"
_ALONE = "Stoker, single-flight off"


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for small files and for large ones, one node and two, and with each asker fetching for itself."""
    small, large = env.scale.shared, env.scale.shards
    with env.corpus("b7", small) as prefix:
        orders = Orders(small)
        mixed = [Job(orders.next()) for _ in range(_READERS)]
        yield _shared(env, prefix, small, mixed, STOKER, f"{_READERS} readers, an order each, small files")
        two = f"2 nodes of {_READERS} readers, small files"
        yield _shared(env, prefix, small, mixed, STOKER, two, nodes=2, note="no rule divides what is cold")
    with env.corpus("b7", large) as prefix:
        same = [Job(list(paths(large)))] * _READERS
        case = f"{_READERS} readers, one order, large files"
        yield _shared(env, prefix, large, same, STOKER, case)
        yield _shared(env, prefix, large, same, _ALONE, case, switches=Switches(policy=EACH_FOR_ITSELF))


def _shared(
    env: Environment,
    prefix: str,
    corpus: Corpus,
    jobs: Sequence[Job],
    system: str,
    case: str,
    *,
    nodes: int = 1,
    switches: Switches | None = None,
    note: str = "",
) -> Row:
    """Measure once: it is a count."""
    env.say(f"B7: {case}, {system}")
    with ExitStack() as stack:
        all_nodes = [stack.enter_context(env.node(switches=switches, name=f"node{number}")) for number in range(nodes)]
        targets = [cold_volume(node, prefix)[1] for node in all_nodes]
        drop_page_cache()
        with env.meter(all_nodes[0]) as meter:
            rates = [epoch.mb_rate for epoch in _all_at_once(targets, jobs, corpus.total_bytes)]
    said = f"{sum(rates):,.0f} MB/s read" + (f"; {note}" if note else "")
    return Row(
        "B7", case, system, _UNIT, (meter.cost.sent / corpus.total_bytes / nodes,), note=said, costs=(meter.cost,)
    )


def _all_at_once(targets: Sequence[Path], jobs: Sequence[Job], total: int) -> list[Epoch]:
    """Run the readers of every node at the same time. Raises BenchError."""
    epochs: list[Epoch] = []

    def read(target: Path) -> None:
        epochs.append(read_jobs(target, jobs, total * len(jobs)))

    threads = [Thread(target=read, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(epochs) != len(targets):
        raise BenchError("the readers of a node failed; they said why on standard error")
    return epochs

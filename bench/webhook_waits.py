"""What a review waits for in the operator's process, while nodes report and Datasets change.

The product's own webhook, with TLS, its passes over Datasets, TrainingJobs and held pods, and the informer that reads
what nodes report from JSON, on one event loop of a process of its own. The API server is played by a watch and by a
writer that takes everything, and kopf by a thread that reads Datasets as often as they change. The reviews come from
this process.
"""

import asyncio
import copy
import json
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.connection import Connection

from bench.errors import BenchError
from bench.led_cluster import DiscardedEvents, LedCluster
from bench.played_watch import PlayedWatch
from bench.simulation.reviews import Asking, WebhookCall, ask_webhook
from bench.simulation.samples import quantile
from stoker_api.dataset import Dataset
from stoker_operator import garbage
from stoker_operator.core.catalog import CatalogEntry, catalog_entry
from stoker_operator.leader import PASS_INTERVAL
from stoker_operator.loop_watch import LEAST, timed_loop
from stoker_operator.main import SWITCH_INTERVAL
from stoker_operator.reconcilers.loop import LevelTriggered, ReconcileLoop
from stoker_operator.reconcilers.pod_gate import PodGate
from stoker_operator.reconcilers.training_jobs import TrainingJobReconciler
from stoker_operator.webhook.certs import make
from stoker_operator.webhook.rotation import load_certificate, new_tls_context
from stoker_operator.webhook.server import WebhookServer

REPORTS = 20.0  # a second, of all nodes: what their pace makes of figures, however many they are
_REVIEWS = 50.0  # a second
_NODES_OF_ONE = 5  # nodes for each other Dataset
_REPORTERS = 500  # nodes that report in turn: a tenth of 5,000
_CALM = 3.0  # seconds until the first passes are over
_HOST = "localhost"
_MS = 1000.0


@dataclass(frozen=True)
class ReviewWaits:
    """Seconds from when a review was due until its answer.

    ``turns``: CPU seconds of those turns of the operator's loop that are told of; ``busy``: of the process, a second.
    """

    nodes: int
    datasets: int
    reports: float
    taken: tuple[float, ...]
    turns: tuple[float, ...]
    busy: float


def measure_waits(nodes: int, seconds: float, reports: float, everywhere: int) -> ReviewWaits:
    """Measure a cluster of so many nodes, which report so often a second in all."""
    datasets = max(1, nodes // _NODES_OF_ONE)
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, nodes, datasets, everywhere, reports))
    process.start()
    there.close()  # so that its end is seen here
    try:
        port, authority = here.recv()
        call = WebhookCall(f"https://{_HOST}:{port}/mutate", _HOST, authority.decode())
        taken = ask_webhook(call, Asking("all-000", _REVIEWS, seconds, namespace="team"))
        here.send("end")
        turns, busy = here.recv()
    except EOFError as error:
        raise BenchError("the process that was to answer reviews has ended") from error
    finally:
        process.terminate()
        process.join()
    return ReviewWaits(nodes, datasets + everywhere, reports, tuple(taken), tuple(turns), busy)


def show_waits(waits: ReviewWaits) -> str:
    """Return the figures as a sentence."""
    median, high = (_MS * quantile(waits.taken, share) for share in (0.5, 0.99))
    return (
        f"{waits.nodes:,} nodes, {waits.datasets:,} Datasets, {waits.reports:g} reports/s, {_REVIEWS:g} reviews/s: "
        f"answered in {median:.1f} ms (median), {high:.1f} ms (99 %), {_MS * max(waits.taken):.1f} ms (longest); "
        f"{sum(one >= LEAST for one in waits.turns)} turns of the loop took {_MS * LEAST:.0f} ms of CPU and more, "
        f"{_MS * max(waits.turns, default=0.0):.1f} ms at most; {waits.busy:.2f} CPUs"
    )


def _serve(pipe: Connection, nodes: int, datasets: int, everywhere: int, reports: float) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL)
    turns: list[float] = []
    with asyncio.Runner(loop_factory=lambda: timed_loop(lambda _, computed: turns.append(computed))) as runner:
        runner.run(_served(pipe, turns, LedCluster(nodes, datasets, everywhere), reports))


async def _served(pipe: Connection, turns: list[float], cluster: LedCluster, reports: float) -> None:
    garbage.begin()
    cluster.make()
    await cluster.settle()
    garbage.set_aside()
    server, authority = _webhook(cluster)
    await server.start()
    running = [asyncio.create_task(loop.run()) for loop in _loops(cluster)]
    watched = PlayedWatch(cluster, cluster.nodes[:_REPORTERS])
    running += [asyncio.create_task(watched.read()), asyncio.create_task(watched.report(reports))]
    garbage.set_aside()
    running.append(asyncio.create_task(garbage.keep_apart()))
    reading = threading.Thread(target=_read_as_kopf, args=(cluster, reports), daemon=True)
    reading.start()
    await asyncio.sleep(_CALM)
    pipe.send((server.port, authority))
    turns.clear()
    began, computed = time.monotonic(), time.process_time()
    await asyncio.to_thread(pipe.recv)
    pipe.send((turns, (time.process_time() - computed) / (time.monotonic() - began)))
    for task in running:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await server.stop()


def _loops(cluster: LedCluster) -> Sequence[ReconcileLoop]:
    jobs = TrainingJobReconciler(cluster.writer, cluster.state, DiscardedEvents(), time.time)
    gate = PodGate(cluster.writer, cluster.state, DiscardedEvents(), time.time)
    made: dict[str, LevelTriggered] = {"datasets": cluster.reconciler, "jobs": jobs, "pods": gate}
    loops = [ReconcileLoop(name, reconciler, PASS_INTERVAL) for name, reconciler in made.items()]
    for loop in loops:
        _wake_on_changes(cluster, loop)
    return loops


def _wake_on_changes(cluster: LedCluster, loop: ReconcileLoop) -> None:
    cluster.state.node_caches.listen(lambda old, new: loop.wake())
    cluster.state.datasets.listen(lambda old, new: loop.wake())


def _webhook(cluster: LedCluster) -> tuple[WebhookServer, bytes]:
    material = make([_HOST], datetime.now(UTC))
    tls = new_tls_context()
    load_certificate(tls, material.certificate, material.key)
    entries = {key: catalog_entry(one) for key, one in cluster.state.datasets.snapshot().items()}
    return WebhookServer(lambda: entries, _nobody, tls, _HOST, 0, is_called_by=_anybody), material.authorities


async def _anybody(path: str) -> bool:
    return True


async def _nobody(key: str) -> CatalogEntry | None:
    return None


def _read_as_kopf(cluster: LedCluster, a_second: float) -> None:
    """Read a Dataset as kopf does with each event of its watch: from JSON, with copies to compare."""
    dataset = cluster.state.datasets.get(f"team/{cluster.all[0]}")
    text = json.dumps(dataset.wire() if isinstance(dataset, Dataset) else {})
    while True:
        for _ in range(5):
            copy.deepcopy(json.loads(text))
        time.sleep(1 / a_second)

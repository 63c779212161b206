"""The operator's command line: run it, keep CRDs current, or take everything away before an uninstall."""

import asyncio
import logging
import signal
import sys
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import click

from stoker_kube.api import Kube
from stoker_kube.client import KubeClient
from stoker_kube.errors import KubeError
from stoker_operator import garbage
from stoker_operator.commands.crds import apply_crds
from stoker_operator.commands.uninstall import Installation, Uninstall
from stoker_operator.core.nearness import ClusterNeighbours
from stoker_operator.core.tuning import ClusterTuning
from stoker_operator.errors import StokerOperatorError
from stoker_operator.loop_watch import timed_loop
from stoker_operator.metrics import note_turn
from stoker_operator.replica import Replica, ReplicaOptions
from stoker_operator.settings import Settings, read_settings

log = logging.getLogger("stoker_operator")

# The API server takes objects 10,000 levels deep, and a TrainingJob's template may hold anything: with Python's limit
# of 1,000 such an object would end the watch of all others, in json.loads. Measured: 10,000 levels need less than the 8
# MiB of a stack.
RECURSION_LIMIT = 30_000

# Seconds after which a thread that computes gives Python's lock to another. kopf's thread reads each event of a
# Dataset, and with Python's 5 ms the loop that answers the webhook would wait so long after each of its waits.
SWITCH_INTERVAL = 0.0005

# Bytes that each TLS connection keeps to read into. asyncio's 256 KiB are filled with zeros, so they are in memory at
# once: 64 connections, to the API server and from it, took 17 MB, and more of them more. A TLS record has 16 KiB.
READ_BUFFER = 64 * 1024

Work = Callable[[Kube, Settings], Coroutine[Any, Any, None]]


@click.group()
def main() -> None:
    """Run Stoker's operator, or what its installation needs.

    Settings come from the environment: POD_NAMESPACE, POD_NAME, STOKER_LOG_LEVEL, STOKER_HOST, STOKER_HTTP_PORT,
    STOKER_WEBHOOK_PORT, STOKER_WEBHOOK_CERTIFICATE_DIR, STOKER_STARTUP_TAINT, STOKER_KUEUE, STOKER_REPORTS,
    STOKER_TUNING, STOKER_TUNING_PROFILE, STOKER_LEAVING_TAINTS, STOKER_WRITES_PER_SECOND, STOKER_ORIGINS (JSON);
    outside a cluster the API server from KUBECONFIG.
    """


@main.command()
def run() -> None:
    """Run one replica until SIGTERM; of several, one acts and all serve the webhook."""
    _start(_run)


@main.command()
@click.option("--timeout", default=60.0, show_default=True, help="Seconds to wait until the CRDs are in use.")
def crds(timeout: float) -> None:
    """Apply the CustomResourceDefinitions of this version (helm's pre-upgrade hook)."""
    _start(lambda kube, _: apply_crds(kube, timeout, click.echo))


@main.command()
@click.option("--timeout", default=120.0, show_default=True, help="Seconds to wait for pods and disks, each.")
@click.option("--ignore-pods", is_flag=True, help="Go on although pods still use Datasets: they lose their data.")
@click.option("--ignore-nodes", is_flag=True, help="Go on although nodes did not clean their disks; names them.")
def uninstall(timeout: float, ignore_pods: bool, ignore_nodes: bool) -> None:
    """Take away what the operator made and clean the nodes (helm's pre-delete hook)."""

    async def work(kube: Kube, settings: Settings) -> None:
        what = Installation(settings.namespace, timeout, ignore_pods, ignore_nodes)
        await Uninstall(kube, what, click.echo).run()

    _start(work)


def _start(work: Work) -> None:
    """Read the settings, run, and turn an error into a sentence and exit code 1."""
    failed = False
    sys.setrecursionlimit(RECURSION_LIMIT)
    sys.setswitchinterval(SWITCH_INTERVAL)
    SSLProtocol.max_size = READ_BUFFER
    try:
        settings = read_settings()
        logging.basicConfig(
            level=settings.log_level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )
        # kopf tells of every handler that succeeded; only what goes wrong is news.
        logging.getLogger("kopf").setLevel(logging.WARNING)
        # It warns at each start that signals are not its own outside of the main thread; that is why it runs there.
        logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
        with asyncio.Runner(loop_factory=partial(timed_loop, note_turn)) as runner:
            runner.run(_connected(work, settings))
    except* (StokerOperatorError, KubeError, OSError) as group:
        failed = True
        for error in _leaves(group):
            log.error("%s", error)
    if failed:
        sys.exit(1)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _connected(work: Work, settings: Settings) -> None:
    async with await KubeClient.connect(compressed=False) as kube:
        await work(kube, settings)


async def _run(kube: Kube, settings: Settings) -> None:
    stop = asyncio.Event()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    log.info("replica %s starts in namespace %s", settings.identity, settings.namespace)
    options = ReplicaOptions(
        namespace=settings.namespace,
        identity=settings.identity,
        host=settings.host,
        http_port=settings.http_port,
        webhook_port=settings.webhook_port,
        certificate_dir=settings.webhook_certificate_dir,
        leaving_taints=settings.taints_of_leaving,
        startup_taint=settings.startup_taint,
        kueue=settings.kueue,
        reports=settings.reports,
        origins=settings.origins,
        neighbours=ClusterNeighbours(settings.neighbours == "Auto", settings.rack_label),
        writes_per_second=settings.writes_per_second,
        tuning=ClusterTuning(settings.tuning, settings.tuning_profile, settings.tuning_environment),
    )
    # Over connections of its own, the Lease's renewal never queues behind the requests of a crowd of objects.
    sparing = asyncio.create_task(garbage.keep_apart(), name="garbage")
    try:
        async with await KubeClient.connect() as lease:
            await Replica(kube, lease, options).run(stop)
    finally:
        sparing.cancel()
    log.info("replica %s has stopped", settings.identity)

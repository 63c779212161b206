"""The operator's command line: run it, serve admission, apply CRDs, or clean up before an uninstall.

Each command imports its own modules only: the webhook's process needs neither kopf nor the reconcilers.
"""

import asyncio
import logging
import os
import resource
import signal
import sys
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from typing import Any

import click

from stoker_api.log_lines import log_to_stderr
from stoker_kube.api import Kube
from stoker_kube.client import KubeClient
from stoker_kube.errors import KubeError
from stoker_kube.tracing.spans import GateSpans, open_tracing
from stoker_operator.core.classes.tuning import ClusterTuning
from stoker_operator.core.peers.peer_groups import PeerSettings
from stoker_operator.errors import StokerOperatorError
from stoker_operator.settings import Settings, read_settings

log = logging.getLogger("stoker_operator")

# The API server takes objects 10,000 levels deep, and a TrainingJob's template may hold anything: with Python's limit
# of 1,000 such an object would end the watch of all others, in json.loads. Measured: 10,000 levels need less than the 8
# MiB of a stack.
RECURSION_LIMIT = 30_000

# Bytes that each TLS connection keeps to read into. asyncio's 256 KiB are filled with zeros, so they are in memory at
# once: 64 connections, to the API server and from it, took 17 MB, and more of them more. A TLS record has 16 KiB.
READ_BUFFER = 64 * 1024

# Open files that are enough for all connections; container runtimes start processes with a soft limit of 1,024.
MOST_FILES = 65_536

Work = Callable[[Kube, Settings], Coroutine[Any, Any, None]]


@click.group()
def main() -> None:
    """Run Stoker's operator and its webhook, or install and uninstall it.

    Settings come from the environment: POD_NAMESPACE, POD_NAME, STOKER_LOG_LEVEL, STOKER_LOG_FORMAT, STOKER_HOST,
    STOKER_HTTP_PORT, STOKER_WEBHOOK_PORT, STOKER_FIGURES, STOKER_FIGURES_PORT, STOKER_WEBHOOK_CERTIFICATE_DIR,
    STOKER_STARTUP_TAINT, STOKER_KUEUE, STOKER_REPORTS, STOKER_TUNING, STOKER_TUNING_PROFILE, STOKER_LEAVING_TAINTS,
    STOKER_WRITES_PER_SECOND, STOKER_ORIGINS (JSON); outside a cluster the API server from KUBECONFIG.
    """


@main.command()
def run() -> None:
    """Run one replica until SIGTERM; one replica acts, all serve figures."""
    from stoker_operator.processes.replica import Replica, ReplicaOptions

    async def work(kube: Kube, settings: Settings) -> None:
        sink = open_tracing("stoker-operator", os.environ)
        options = ReplicaOptions(
            namespace=settings.namespace,
            identity=settings.identity,
            host=settings.host,
            http_port=settings.http_port,
            figures_port=settings.figures_port if settings.figures else None,
            certificate_dir=settings.webhook_certificate_dir,
            leaving_taints=settings.taints_of_leaving,
            startup_taint=settings.startup_taint,
            kueue=settings.kueue,
            origins=settings.origins,
            peer_settings=PeerSettings(settings.peers == "Auto", settings.rack_label),
            writes_per_second=settings.writes_per_second,
            tuning=ClusterTuning(settings.tuning, settings.tuning_profile, settings.tuning_environment),
            spans=GateSpans(sink) if sink is not None else None,
        )
        log.info("replica %s starts in namespace %s", settings.identity, settings.namespace)
        with closing(sink) if sink is not None else nullcontext():
            await Replica(kube, _lease_client, options).run(_stop_signal())
        log.info("replica %s has stopped", settings.identity)

    # kopf logs each handler that succeeds.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # kopf runs in a thread, so that it takes no signals; at each start it warns about that.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    _start(work)


@main.command()
def webhook() -> None:
    """Serve the admission webhook until SIGTERM; every replica has this process."""
    from stoker_operator.processes.webhook_process import WebhookOptions, WebhookProcess

    async def work(kube: Kube, settings: Settings) -> None:
        options = WebhookOptions(
            namespace=settings.namespace,
            host=settings.host,
            http_port=settings.http_port,
            webhook_port=settings.webhook_port,
            certificate_dir=settings.webhook_certificate_dir,
            reports=settings.reports,
        )
        log.info("the webhook of %s starts in namespace %s", settings.identity, settings.namespace)
        await WebhookProcess(kube, options).run(_stop_signal())
        log.info("the webhook of %s has stopped", settings.identity)

    _start(work)


@main.command()
@click.option("--timeout", default=60.0, show_default=True, help="Seconds to wait until the CRDs are in use.")
def crds(timeout: float) -> None:
    """Apply the CustomResourceDefinitions of this version (helm's pre-upgrade hook)."""
    from stoker_operator.commands.crds import apply_crds

    _start(lambda kube, _: apply_crds(kube, timeout, click.echo))


@main.command()
@click.option("--timeout", default=120.0, show_default=True, help="Seconds to wait for pods and disks, each.")
@click.option("--ignore-pods", is_flag=True, help="Continue although pods still use Datasets, which lose their data.")
@click.option("--ignore-nodes", is_flag=True, help="Continue although nodes did not clean their disks, and list them.")
def uninstall(timeout: float, ignore_pods: bool, ignore_nodes: bool) -> None:
    """Take away what the operator made and clean the nodes (helm's pre-delete hook)."""
    from stoker_operator.commands.uninstall import Installation, Uninstall

    async def work(kube: Kube, settings: Settings) -> None:
        what = Installation(settings.namespace, timeout, ignore_pods, ignore_nodes)
        await Uninstall(kube, what, click.echo).run()

    _start(work)


def _start(work: Work) -> None:
    """Read the settings, run, and turn an error into a sentence and exit code 1."""
    failed = False
    sys.setrecursionlimit(RECURSION_LIMIT)
    SSLProtocol.max_size = READ_BUFFER
    raise_open_files()
    try:
        settings = read_settings()
        log_to_stderr(settings.log_level)
        asyncio.run(_connected(work, settings))
    except* (StokerOperatorError, KubeError, OSError) as group:
        failed = True
        for error in _leaves(group):
            log.error("%s", error)
    if failed:
        sys.exit(1)


def raise_open_files() -> None:
    """Raise the soft limit of open files to the hard one, up to MOST_FILES."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _connected(work: Work, settings: Settings) -> None:
    async with await KubeClient.connect(compressed=False) as kube:
        await work(kube, settings)


@asynccontextmanager
async def _lease_client() -> AsyncIterator[Kube]:
    """Make a client with its own connections, so that no other request delays the Lease's renewal."""
    async with await KubeClient.connect() as kube:
        yield kube


def _stop_signal() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop

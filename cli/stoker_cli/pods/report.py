"""The command `stoker report`: the goodput of a job."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol

import click

from stoker_api.goodput import EndedPod
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli.access.cluster import Target, connect
from stoker_cli.access.pod_figures import ASK_FOR_NODES
from stoker_cli.errors import NOT_FOUND, CliError
from stoker_cli.output import OUTPUT, console, plain, print_json, printable, refusals
from stoker_cli.pods.job_report import (
    COLUMNS,
    EXPLANATION,
    JobReport,
    of_pods,
    of_training_job,
    phase_of,
    readable,
    rows,
)
from stoker_cli.pods.subject import NamedObjects, Object, find_named
from stoker_cli.render import table

_AT_ONCE = 16  # concurrent reads of NodeCaches
# \b keeps click from joining the lines.
_EXAMPLES = """\b
Examples:
  stoker report resnet                a TrainingJob, Job or pod, in this order
  stoker report job/preprocess        a plain Job with annotated pods, up to an hour after its end
  stoker report -l jobset.sigs.k8s.io/jobset-name=resnet    all pods of a JobSet or TrainJob
  stoker report -l ray.io/cluster=tune    all pods of a RayCluster; other labels: docs/guides/goodput.md
  stoker report resnet -o json | jq .goodput.savedGpuHours
  stoker report --explain             how figures are measured, and the formula for saved time
"""


class ReportedCluster(NamedObjects, Protocol):
    """Reads jobs and pods, and the NodeCaches of their nodes."""

    node_caches_refused: bool

    async def node_cache(self, name: str) -> NodeCache | None:
        """Read a node's cache."""


@click.command(epilog=_EXAMPLES)
@click.argument("job", required=False)
@click.option("-n", "--namespace", help="Default: the context's namespace.")
@click.option("-l", "--selector", metavar="LABEL=VALUE", help="Report on all pods with these labels instead of JOB.")
@click.option("--explain", is_flag=True, help="Explain how figures are measured, and the formula for saved time.")
@OUTPUT
@click.pass_obj
def report(
    target: Target, job: str | None, namespace: str | None, selector: str | None, explain: bool, output: str
) -> None:
    """Show how JOB spent its time: held, warm at start, sources of its data, stall, and saved GPU-hours.

    JOB is a TrainingJob, a Job or a pod; use tj/NAME, job/NAME or pod/NAME to select the kind. For other kinds, select
    their pods with -l. GPU-hours are saved compared with a cold start that copies the data first: warm bytes / best
    rate from the source x GPUs (--explain).
    """
    if explain:
        click.echo(EXPLANATION, nl=False)
        return
    if bool(job) == bool(selector):
        raise click.UsageError("Use one of JOB, -l LABEL=VALUE or --explain.")
    find = partial(find_report, name=job) if job else partial(report_of_labels, labels=selector or "")
    with refusals():
        asyncio.run(_report(replace(target, namespace=namespace) if namespace else target, find, output))


async def _report(target: Target, find: Callable[[ReportedCluster], Awaitable[JobReport]], output: str) -> None:
    async with connect(target) as cluster:
        job = await find(cluster)
        if cluster.node_caches_refused:
            job = replace(job, note=ASK_FOR_NODES, unread=True)
    if output == "json":
        print_json(job.wire())
        return
    screen = console()
    screen.print(plain(job.title()), highlight=False)
    if job.goodput is not None:
        screen.print(table(COLUMNS, readable(rows(job.goodput), unread=job.unread)))
    if job.note:
        screen.print(job.note, highlight=False)


async def find_report(cluster: ReportedCluster, name: str) -> JobReport:
    """Return the report of a job or a pod. Raises CliError with NOT_FOUND."""
    kind, plain_name, item = await find_named(cluster, name, ("TrainingJob", "Job", "Pod"))
    if isinstance(item, TrainingJob):
        return of_training_job(item)
    pods = await cluster.pods_of_job(plain_name) if kind == "Job" else [item]
    phase = _job_phase(item) if kind == "Job" else str((item.get("status") or {}).get("phase") or "")
    return of_pods((kind, cluster.namespace, plain_name), phase, pods, await _ended(cluster, pods))


async def report_of_labels(cluster: ReportedCluster, labels: str) -> JobReport:
    """Return the report of all pods with these labels. Raises CliError with NOT_FOUND."""
    pods = await cluster.pods_with(labels)
    if not pods:
        raise CliError(
            f"No pod with {printable(labels)} and a Dataset in namespace {cluster.namespace}. Use -n for another "
            "namespace. Deleted pods are not found.",
            NOT_FOUND,
        )
    return of_pods(("Pods", cluster.namespace, labels), phase_of(pods), pods, await _ended(cluster, pods))


def _job_phase(job: Object) -> str:
    conditions = [
        condition["type"]
        for condition in (job.get("status") or {}).get("conditions") or ()
        if condition["status"] == "True"
    ]
    return next((phase for phase in ("Complete", "Failed", "Suspended") if phase in conditions), "Running")


async def _ended(cluster: ReportedCluster, pods: Iterable[Object]) -> list[EndedPod]:
    """Return the rows of ended pods on the nodes of these pods."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def ask(node: str) -> NodeCache | None:
        async with slots:
            return await cluster.node_cache(node)

    nodes = sorted({str(node) for pod in pods if (node := pod["spec"].get("nodeName"))})
    caches = await asyncio.gather(*map(ask, nodes))
    return [row for cache in caches if cache is not None for row in cache.status.ended]

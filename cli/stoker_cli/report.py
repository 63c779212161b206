"""The command `stoker report`: what a job made of its time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import click

from stoker_api.goodput import EndedPod
from stoker_api.nodecache import NodeCache
from stoker_api.trainingjob import TrainingJob
from stoker_cli.cluster import Target, connect
from stoker_cli.errors import NOT_FOUND, CliError
from stoker_cli.job_report import COLUMNS, EXPLANATION, JobReport, of_pods, of_training_job, phase_of, rows
from stoker_cli.output import OUTPUT, console, print_json, refusals
from stoker_cli.render import plain, table
from stoker_cli.tuning_rows import printable

Object = Mapping[str, Any]
_AT_ONCE = 16  # requests for NodeCaches
# The sign keeps click from making one paragraph of the lines.
_EXAMPLES = """\b
Examples:
  stoker report resnet                a TrainingJob, else a Job, else a pod of that name
  stoker report job/preprocess        a plain Job with annotated pods, within an hour of its end
  stoker report -l jobset.sigs.k8s.io/jobset-name=resnet    all pods of a JobSet or TrainJob together
  stoker report -l ray.io/cluster=tune                      of a RayCluster; docs/GOODPUT.md has other projects' labels
  stoker report resnet -o json | jq .goodput.savedGpuHours
  stoker report --explain             how each figure is measured, and the formula of what was saved
"""


class ReportedCluster(Protocol):
    """Who knows jobs and pods, and what nodes tell of them."""

    namespace: str

    async def training_job(self, name: str) -> TrainingJob:
        """Read a TrainingJob. Raises CliError."""

    async def job(self, name: str) -> dict[str, Any]:
        """Read a Job. Raises CliError."""

    async def pod(self, name: str) -> dict[str, Any]:
        """Read a pod. Raises CliError."""

    async def pods_of_job(self, name: str) -> Sequence[dict[str, Any]]:
        """Return the pods of a Job."""

    async def pods_with(self, labels: str) -> Sequence[dict[str, Any]]:
        """Return the pods with these labels that have Datasets."""

    async def node_cache(self, name: str) -> NodeCache | None:
        """Read a node's cache."""


@click.command(epilog=_EXAMPLES)
@click.argument("job", required=False)
@click.option("-n", "--namespace", help="Default: the context's namespace.")
@click.option("-l", "--selector", metavar="LABEL=VALUE", help="In place of JOB: all pods with these labels together.")
@click.option("--explain", is_flag=True, help="Say how each figure is measured, and the formula of what was saved.")
@OUTPUT
@click.pass_obj
def report(
    target: Target, job: str | None, namespace: str | None, selector: str | None, explain: bool, output: str
) -> None:
    """Show what JOB made of its time: held, warm at start, where its bytes came from, stalled, and GPU-hours saved.

    JOB is a TrainingJob, a Job or a pod; tj/NAME, job/NAME and pod/NAME say which. Of other kinds name the label that
    all their pods have (-l). GPU-hours saved are those against a
    cold start that copies the data first: warm bytes / best rate from the source x GPUs (--explain). What was not
    measured is called so.
    """
    if explain:
        click.echo(EXPLANATION, nl=False)
        return
    if bool(job) == bool(selector):
        raise click.UsageError("name a JOB, or the labels of its pods by -l, or say --explain")
    find = partial(find_report, name=job) if job else partial(report_of_labels, labels=selector or "")
    with refusals():
        asyncio.run(_report(replace(target, namespace=namespace) if namespace else target, find, output))


async def _report(target: Target, find: Callable[[ReportedCluster], Awaitable[JobReport]], output: str) -> None:
    async with connect(target) as cluster:
        found = await find(cluster)
    if output == "json":
        print_json(found.wire())
        return
    screen = console()
    screen.print(plain(found.title()), highlight=False)
    if found.goodput is not None:
        screen.print(table(COLUMNS, rows(found.goodput)))
    if found.note:
        screen.print(found.note, highlight=False)


async def find_report(cluster: ReportedCluster, name: str) -> JobReport:
    """Return the report of a job by its name, with its kind before it or not. Raises CliError with NOT_FOUND."""
    kind, _, plain = name.rpartition("/")
    kinds: dict[str, Callable[[ReportedCluster, str], Awaitable[JobReport]]] = {
        "tj": _of_training_job,
        "job": _of_job,
        "pod": _of_pod,
    }
    kind = "tj" if kind == "trainingjob" else kind
    if kind and kind not in kinds:
        raise CliError(f"{printable(name)}: say JOB, tj/NAME, job/NAME or pod/NAME.")
    for find in [kinds[kind]] if kind else kinds.values():
        try:
            return await find(cluster, plain)
        except CliError as error:
            if kind or error.exit_code != NOT_FOUND:
                raise
    where = f"in namespace {cluster.namespace}: name another one with -n"
    raise CliError(f"There is no TrainingJob, Job or pod {printable(plain)} {where}.", NOT_FOUND)


async def report_of_labels(cluster: ReportedCluster, labels: str) -> JobReport:
    """Return the report of all pods with these labels. Raises CliError with NOT_FOUND."""
    pods = await cluster.pods_with(labels)
    if not pods:
        why = "pods that are deleted are known no more, and others have the annotation stoker.dev/datasets"
        where = f"in namespace {cluster.namespace}: name another one with -n"
        raise CliError(f"There is no pod with {printable(labels)} that has a Dataset {where}; {why}.", NOT_FOUND)
    return of_pods(("Pods", cluster.namespace, labels), phase_of(pods), pods, await _ended(cluster, pods))


async def _of_training_job(cluster: ReportedCluster, name: str) -> JobReport:
    return of_training_job(await cluster.training_job(name))


async def _of_job(cluster: ReportedCluster, name: str) -> JobReport:
    job = await cluster.job(name)
    pods = await cluster.pods_of_job(name)
    return of_pods(("Job", cluster.namespace, name), _job_phase(job), pods, await _ended(cluster, pods))


async def _of_pod(cluster: ReportedCluster, name: str) -> JobReport:
    pod = await cluster.pod(name)
    phase = str((pod.get("status") or {}).get("phase") or "")
    return of_pods(("Pod", cluster.namespace, name), phase, [pod], await _ended(cluster, [pod]))


def _job_phase(job: Object) -> str:
    ends = [one["type"] for one in (job.get("status") or {}).get("conditions") or () if one["status"] == "True"]
    return next((phase for phase in ("Complete", "Failed", "Suspended") if phase in ends), "Running")


async def _ended(cluster: ReportedCluster, pods: Iterable[Object]) -> list[EndedPod]:
    """Return what the nodes of these pods tell of pods that have ended."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def ask(node: str) -> NodeCache | None:
        async with slots:
            return await cluster.node_cache(node)

    nodes = sorted({str(node) for pod in pods if (node := pod["spec"].get("nodeName"))})
    caches = await asyncio.gather(*map(ask, nodes))
    return [row for cache in caches if cache is not None for row in cache.status.ended]

"""The command `stoker support-bundle`."""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from stoker_api.meta import format_bytes
from stoker_cli.access.cluster import Target, connect_client
from stoker_cli.output import printable, refusals
from stoker_cli.support.bundle.archive import write_archive
from stoker_cli.support.bundle.contents import MOST_LOG, BundleFiles, add_facts, add_left_out, logs_wanted
from stoker_cli.support.bundle.redaction import redact
from stoker_cli.support.doctor.examination import examine
from stoker_cli.support.doctor.webhook_checks import PROBE
from stoker_cli.support.facts import DATASET_EVENTS, JOB_EVENTS, ClusterFacts, Raw, key_of
from stoker_cli.support.findings import Finding
from stoker_cli.support.reads import SupportClient, read_facts
from stoker_kube.errors import KubeError


@click.command("support-bundle")
@click.option("-o", "--output", "path", type=click.Path(path_type=Path), help="Default: stoker-support-TIME.tar.gz.")
@click.option("--logs/--no-logs", default=True, help="Include the logs of Stoker's pods.")
@click.option("--probe/--no-probe", default=True, help="Send a test pod as a dry run, to test the webhook.")
@click.option("-n", "--namespace", help="Namespace of the test pod. Default: the context's namespace.")
@click.pass_obj
def support_bundle(target: Target, path: Path | None, logs: bool, probe: bool, namespace: str | None) -> None:
    """Write objects, logs and findings into a FILE.tar.gz for a fault report, without secrets.

    It holds Stoker's objects, pods, events and logs, the nodes, and the findings of `stoker doctor`, if you may
    read them. Credentials are masked. Read the files before you send them.
    """
    now = time.time()
    name = f"stoker-support-{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}"
    with refusals():
        files = asyncio.run(_collected(target, logs, probe, namespace or target.own_namespace))
        path = path or Path(f"{name}.tar.gz")
        size = write_archive(path, name, files.files, now)
    _tell(f"{len(files.files)} files, {format_bytes(size)}. Read them before you send them.")
    click.echo(printable(str(path)))


async def _collected(target: Target, logs: bool, probe: bool, namespace: str) -> BundleFiles:
    async with connect_client(target) as client:
        return await collect(client, namespace, logs=logs, probe=probe)


async def collect(client: SupportClient, namespace: str, *, logs: bool = True, probe: bool = True) -> BundleFiles:
    """Read and redact all files of a bundle. Raises KubeError if the API server does not answer.

    ``namespace``: that of the test pod.
    """
    _tell("Reading objects.")
    facts = await read_facts(client, dict(PROBE) if probe else None, namespace, (DATASET_EVENTS, JOB_EVENTS))
    findings, files = examine(facts), BundleFiles()
    add_facts(files, facts, findings)
    missing = await _add_logs(client, files, facts, findings) if logs else []
    add_left_out(files, facts, missing)
    return files


async def _add_logs(
    client: SupportClient, files: BundleFiles, facts: ClusterFacts, findings: tuple[Finding, ...]
) -> list[str]:
    """Add the logs one by one. Return the logs that could not be read, with the reasons."""
    missing, wanted = list[str](), list(logs_wanted(facts, findings))
    for number, (pod, container, previous) in enumerate(wanted, 1):
        _tell(f"Reading log {number} of {len(wanted)}: {key_of(pod)}")
        try:
            log = await _log(client, pod, container, previous)
        except KubeError as error:
            missing.append(f"log of {key_of(pod)}, container {container}: {redact(error.message)}")
            continue
        suffix = ".previous.log" if previous else ".log"
        files.add_log(f"logs/{pod['metadata']['name']}/{container}{suffix}", log)
    return missing


async def _log(client: SupportClient, pod: Raw, container: str, previous: bool) -> bytes:
    meta = pod["metadata"]
    return await client.pod_log(meta["name"], meta["namespace"], container, most=MOST_LOG, previous=previous)


def _tell(text: str) -> None:
    """Show progress on standard error."""
    click.echo(printable(text), err=True)

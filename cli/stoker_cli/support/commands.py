"""The commands that check and explain: support-bundle, doctor, validate and completion."""

import asyncio
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from stoker_api.meta import format_bytes
from stoker_cli.access.cluster import Target, connect_client
from stoker_cli.errors import FAILED, NOT_FOUND, CliError
from stoker_cli.output import OUTPUT, print_json, printable, refusals
from stoker_cli.support.bundle.contents import (
    MOST_LOG,
    BundleFiles,
    add_facts,
    add_left_out,
    logs_wanted,
    write_archive,
)
from stoker_cli.support.bundle.redaction import redact
from stoker_cli.support.doctor.examination import examine
from stoker_cli.support.doctor.webhook_checks import PROBE
from stoker_cli.support.facts import DATASET_EVENTS, JOB_EVENTS, ClusterFacts, Raw, key_of
from stoker_cli.support.findings import Finding, failed, lines, wire
from stoker_cli.support.reads import SupportClient, read_facts
from stoker_cli.support.validation.documents import check_file, check_lines, check_wire
from stoker_cli.support.validation.yaml_trees import MOST_BYTES
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


@click.command()
@click.option("--node", default="", help="Show each check of this node only, and the checks of the release.")
@click.option("--probe/--no-probe", default=True, help="Send a test pod as a dry run, to test the webhook.")
@click.option("-n", "--namespace", help="Namespace of the test pod. Default: the context's namespace.")
@OUTPUT
@click.pass_obj
def doctor(target: Target, node: str, probe: bool, namespace: str | None, output: str) -> None:
    """Check the release, its nodes and Datasets, with a line for each check: OK, WARN or FAIL, and what to do.

    It reads the API server with your rights and writes nothing. A check that you may not make names the right it needs.
    Exit codes: 0 no FAIL, 1 a FAIL, 4 no connection.
    """
    with refusals():
        findings = asyncio.run(_examined(target, node, probe, namespace or target.own_namespace))
    if output == "json":
        print_json(wire(findings))
    else:
        click.echo("\n".join(lines(findings, every=bool(node))))
    if failed(findings):
        sys.exit(FAILED)


async def _examined(target: Target, node: str, probe: bool, namespace: str) -> tuple[Finding, ...]:
    async with connect_client(target) as client:
        return examine(await read_facts(client, dict(PROBE) if probe else None, namespace), node)


_STANDARD_INPUT = "-"


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, allow_dash=True))
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of documents without one.")
@OUTPUT
def validate(files: tuple[Path, ...], namespace: str, output: str) -> None:
    """Check YAML or JSON documents without a cluster. - reads standard input.

    Datasets, TrainingJobs, DatasetClasses and TuningProfiles are checked completely, and pods and pod templates for
    Stoker's annotations. Unknown fields are problems. Exit codes: 0 all are valid, 1 one is not, 3 a file cannot be
    read.
    """
    with refusals():
        checks = [(str(file), check_file(_read(file), namespace)) for file in files]
    if output == "json":
        print_json([check_wire(*each) for each in checks])
    else:
        for each in checks:
            click.echo("\n".join(check_lines(*each)))
    if any(check.problems for _, found in checks for check in found):
        sys.exit(FAILED)


def _read(file: Path) -> bytes:
    try:
        if str(file) == _STANDARD_INPUT:
            return sys.stdin.buffer.read(MOST_BYTES + 1)
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CliError(f"Cannot read {printable(str(file))}: {reason}", NOT_FOUND) from error


_PROGRAM, _VARIABLE = "stoker", "_STOKER_COMPLETE"  # click derives the variable from the program's name
# \b keeps click from joining the lines.
_EXAMPLES = """\b
Examples:
  source <(stoker completion bash)          # in ~/.bashrc
  source <(stoker completion zsh)           # in ~/.zshrc, after compinit
  stoker completion fish > ~/.config/fish/completions/stoker.fish
"""


@click.command(epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options of `stoker` in SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None  # the choices are those of click
    # ShellComplete.source, because that of bash starts bash to look at its version.
    click.echo(ShellComplete.source(kind(context.find_root().command, {}, _PROGRAM, _VARIABLE)))

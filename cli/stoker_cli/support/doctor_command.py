"""The command `stoker doctor`."""

import asyncio
import sys

import click

from stoker_cli.access.cluster import Target, connect_client
from stoker_cli.errors import FAILED
from stoker_cli.output import OUTPUT, print_json, refusals
from stoker_cli.support.doctor.examination import examine
from stoker_cli.support.doctor.webhook_checks import PROBE
from stoker_cli.support.findings import Finding, failed, lines, wire
from stoker_cli.support.reads import read_facts


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

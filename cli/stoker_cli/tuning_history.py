"""The command `stoker tuning history`: which knobs were turned, and what came of it."""

import asyncio
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from stoker_api.nodecache import NodeCache
from stoker_api.times import format_time
from stoker_cli.cluster import Target, connect
from stoker_cli.errors import FAILED, UNREACHABLE, CliError
from stoker_cli.local_mounts import LocalMountPath, of_a_mount
from stoker_cli.output import OUTPUT, console, print_json, refusals
from stoker_cli.render import table
from stoker_cli.rows import UNKNOWN
from stoker_cli.tuning_rows import printable

Object = Mapping[str, Any]
LAST_COLUMNS = ("POD", "NODE", "DATASET", "CHANGED", "GAIN")
HISTORY_COLUMNS = ("TIME", "KIND", "POD", "DATASET", "WHAT", "RESULT")
_KINDS = ("change", "phase", "prediction")
_MOST_BYTES = 16 * 2**20
_SECONDS = 10.0
# The sign keeps click from making one paragraph of the lines.
_EXAMPLES = """\b
Examples:
  stoker tuning history                     your namespace
  stoker tuning history resnet-0            one pod
  kubectl -n stoker port-forward pod/stoker-sidecar-x7k2p 8083 &
  stoker tuning history vision/imagenet --from http://localhost:8083 --kind change
  stoker tuning history --mount /data       a mount of stoker mount
"""


def last_changes(caches: Iterable[NodeCache], namespace: str, about: str) -> list[dict[str, Any]]:
    """Return the last change of each workload that has one; ``about``: NAMESPACE/NAME of a pod or Dataset, or empty."""
    return [
        {"node": cache.metadata.name, **row.wire()}
        for cache in caches
        for row in cache.status.workloads
        if row.tuned
        and (not namespace or row.pod.partition("/")[0] == namespace)
        and (not about or about in (row.pod, *row.datasets))
    ]


def last_row(change: Object) -> tuple[str, ...]:
    """Return the cells of the last change of a workload."""
    gain = change.get("gainPercent")
    words = change["pod"], change["node"], ", ".join(change.get("datasets", ())), change["tuned"]
    return _cells(*words, "" if gain is None else f"{gain:+d}%")


def history_row(entry: Object) -> tuple[str, ...]:
    """Return the cells of one row of a node's history."""
    what, result = _told(entry)
    time = format_time(float(entry["at"]))
    return _cells(time, entry["kind"], entry.get("pod", ""), entry.get("dataset", ""), what, result)


def _told(entry: Object) -> tuple[str, str]:
    if entry["kind"] == "change" and "change" in entry:
        change, back = entry["change"], ", taken back" if entry.get("taken_back") else ""
        limits = f"{100 * entry['gain']:+.0f}% ({100 * entry['low']:+.0f} to {100 * entry['high']:+.0f})"
        what = f"{change['knob']} {change['old']} to {change['new']} ({change['origin']})"
        return what, f"{entry['verdict']}{back}, {limits}"
    if entry["kind"] == "phase":
        return f"{entry.get('old') or 'nothing'} to {entry.get('new')}", ""
    return f"{entry.get('phase')} foreseen", f"{entry.get('came')} came: {'right' if entry.get('hit') else 'wrong'}"


def _cells(*words: object) -> tuple[str, ...]:
    return tuple(printable(str(word)) or UNKNOWN for word in words)


def history_url(base: str, about: str, kind: str | None, limit: int) -> str:
    """Return the address of a node's history. Raises CliError where ``base`` is none."""
    parts = urllib.parse.urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise CliError(f"{printable(base)!r} is no address: name one such as http://localhost:8083.", FAILED)
    asked = {"limit": str(limit)} | ({"about": about} if about else {}) | ({"kind": kind} if kind else {})
    return f"{parts.scheme}://{parts.netloc}/ml/history?{urllib.parse.urlencode(asked)}"


def fetch_history(url: str) -> list[dict[str, Any]]:
    """Return the rows that a node answers with, the newest first. Blocks. Raises CliError."""
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:
            rows = json.loads(answer.read(_MOST_BYTES))["history"]
            return [dict(row) for row in rows]
    except urllib.error.HTTPError as error:
        error.close()
        raise CliError(f"{url} answered {error.code}: is it port 8083 of a sidecar?", FAILED) from error
    except (OSError, urllib.error.URLError) as error:
        why = getattr(error, "reason", error)
        hint = "kubectl -n stoker port-forward pod/SIDECAR 8083"
        raise CliError(f"{url} cannot be reached ({why}): does `{hint}` run?", UNREACHABLE) from error
    except (ValueError, KeyError, TypeError) as error:
        raise CliError(f"{url} answered what is no history: is it port 8083 of a sidecar?", FAILED) from error


@click.command(name="history", epilog=_EXAMPLES)
@click.argument("name", required=False, metavar="[DATASET|POD]")
@click.option("-n", "--namespace", help="Default: the context's namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Workloads of every namespace.")
@click.option("--from", "base", metavar="URL", help="Port 8083 of one node's sidecar: its whole history.")
@click.option("--kind", type=click.Choice(_KINDS), help="With --from or --mount: rows of this kind alone.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="With --from or --mount: so many."
)
@of_a_mount
@OUTPUT
@click.pass_obj
def history_command(
    target: Target,
    name: str | None,
    namespace: str | None,
    all_namespaces: bool,
    base: str | None,
    kind: str | None,
    limit: int,
    mount: LocalMountPath | None,
    output: str,
) -> None:
    """Show which knobs were turned for DATASET or POD, and what that gained.

    The cluster knows the last change of each workload. The whole history of a node, with phases and predictions, is
    with its sidecar, where --from reads it.
    """
    with refusals():
        if mount is not None:
            _show_history(mount.find().history(kind, limit), output)
            return
        if base is not None:
            about = _qualified(name, target, namespace)
            _show_history(fetch_history(history_url(base, about, kind, limit)), output)
            return
        asyncio.run(_show_last(target, name, "" if all_namespaces else namespace, output, everywhere=all_namespaces))


def _qualified(name: str | None, target: Target, namespace: str | None) -> str:
    if not name or "/" in name:
        return name or ""
    return f"{namespace or target.own_namespace}/{name}"


async def _show_last(target: Target, name: str | None, namespace: str | None, output: str, *, everywhere: bool) -> None:
    about = _qualified(name, target, namespace)
    within = "" if everywhere or about else namespace or target.own_namespace
    async with connect(target) as cluster:
        changes = last_changes(await cluster.node_caches(), within, about)
    if output == "json":
        print_json(changes)
    elif changes:
        console().print(table(LAST_COLUMNS, map(last_row, changes)))
    else:
        click.echo(f"No change has come to anything yet{_where(within, about)}.", err=True)


def _where(namespace: str, about: str) -> str:
    if about:
        return f" for {printable(about)}"
    return f" in namespace {namespace} (-A shows all namespaces)" if namespace else ""


def _show_history(rows: Sequence[Object], output: str) -> None:
    if output == "json":
        print_json(list(rows))
    elif rows:
        try:
            console().print(table(HISTORY_COLUMNS, map(history_row, rows)))
        except (KeyError, TypeError, ValueError) as error:
            raise CliError("The history has rows of another form: is the sidecar of this version?", FAILED) from error
    else:
        click.echo("The history has no such rows.", err=True)

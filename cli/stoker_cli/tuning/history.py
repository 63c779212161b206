"""The command `stoker tuning history`: tuning changes and their effects."""

import asyncio
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import format_time
from stoker_cli.access.cluster import Target, connect
from stoker_cli.errors import FAILED, UNREACHABLE, CliError
from stoker_cli.local.local_mounts import LocalMountPath, with_mount_options
from stoker_cli.output import OUTPUT, console, print_json, printable, refusals
from stoker_cli.render import table
from stoker_cli.rows import UNKNOWN

Object = Mapping[str, Any]
LAST_COLUMNS = ("POD", "NODE", "DATASET", "CHANGED", "GAIN")
HISTORY_COLUMNS = ("TIME", "KIND", "POD", "DATASET", "WHAT", "RESULT")
_KINDS = ("change", "phase", "prediction")
_MOST_BYTES = 16 * 2**20
_SECONDS = 10.0
# \b keeps click from joining the lines.
_EXAMPLES = """\b
Examples:
  stoker tuning history                     your namespace
  stoker tuning history resnet-0            one pod
  kubectl -n stoker port-forward pod/stoker-sidecar-x7k2p 8083 &
  stoker tuning history vision/imagenet --from http://localhost:8083 --kind change
  stoker tuning history --mount /data       a mount of stoker mount
"""


def last_changes(caches: Iterable[NodeCache], namespace: str, about: str) -> list[dict[str, Any]]:
    """Return the last change of each workload. ``about``: NAMESPACE/NAME of a pod or Dataset, or empty for all."""
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
    """Return the cells of one row of the history of a node."""
    what, result = _result(entry)
    time = format_time(float(entry["at"]))
    return _cells(time, entry["kind"], entry.get("pod", ""), entry.get("dataset", ""), what, result)


def _result(entry: Object) -> tuple[str, str]:
    if entry["kind"] == "change" and "change" in entry:
        change, back = entry["change"], ", reverted" if entry.get("taken_back") else ""
        limits = f"{100 * entry['gain']:+.0f}% ({100 * entry['low']:+.0f} to {100 * entry['high']:+.0f})"
        what = f"{change['knob']} {change['old']} to {change['new']} ({change['origin']})"
        return what, f"{entry['verdict']}{back}, {limits}"
    if entry["kind"] == "phase":
        return f"{entry.get('old') or 'nothing'} to {entry.get('new')}", ""
    return (
        f"{entry.get('phase')} predicted",
        f"{'right' if entry.get('hit') else 'wrong'}: {entry.get('came')} followed",
    )


def _cells(*words: object) -> tuple[str, ...]:
    return tuple(printable(str(word)) or UNKNOWN for word in words)


def history_url(base: str, about: str, kind: str | None, limit: int) -> str:
    """Return the URL of the history of a node. Raises CliError if ``base`` is no URL."""
    parts = urllib.parse.urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise CliError(f"--from {printable(base)!r} is not a URL. Use one such as http://localhost:8083.", FAILED)
    asked = {"limit": str(limit)} | ({"about": about} if about else {}) | ({"kind": kind} if kind else {})
    return f"{parts.scheme}://{parts.netloc}/ml/history?{urllib.parse.urlencode(asked)}"


def fetch_history(url: str) -> list[dict[str, Any]]:
    """Fetch the history of a node, newest first. Blocks. Raises CliError."""
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:
            rows = json.loads(answer.read(_MOST_BYTES))["history"]
            return [dict(row) for row in rows]
    except urllib.error.HTTPError as error:
        error.close()
        raise CliError(f"{url} answered {error.code}. Use port 8083 of a sidecar with --from.", FAILED) from error
    except (OSError, urllib.error.URLError) as error:
        why = getattr(error, "reason", error)
        hint = "kubectl -n stoker port-forward pod/SIDECAR 8083"
        raise CliError(f"Cannot reach {url} ({why}). Run: {hint}", UNREACHABLE) from error
    except (ValueError, KeyError, TypeError) as error:
        raise CliError(
            f"{url} did not answer with a history. Use port 8083 of a sidecar with --from.", FAILED
        ) from error


@click.command(name="history", epilog=_EXAMPLES)
@click.argument("name", required=False, metavar="[DATASET|POD]")
@click.option("-n", "--namespace", help="Default: the context's namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Show pods of all namespaces.")
@click.option("--from", "base", metavar="URL", help="Address of port 8083 of a sidecar; shows its full history.")
@click.option("--kind", type=click.Choice(_KINDS), help="With --from or --mount: show only rows of this kind.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="With --from or --mount: maximum number of rows.",
)
@with_mount_options
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
    """Show tuning changes for DATASET or POD, and their effect.

    The cluster stores the last change of each pod. --from reads the full history of a node, with phases and
    predictions, from its sidecar.
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
        click.echo(f"No tuning change has had a measurable effect yet{_where(within, about)}.", err=True)


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
            raise CliError(
                "The history has unknown rows. Use the version of this program that matches the sidecar.", FAILED
            ) from error
    else:
        click.echo("No matching rows in the history.", err=True)

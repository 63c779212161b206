"""Output of `stoker tuning plugins`: the plug-ins here or on nodes, their answers, and why one is left out."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.node_caches.nodecache_status import NodeOrderPlugin, NodePlugin
from stoker_cli.access.cluster import Target, connect
from stoker_cli.errors import NOT_FOUND, CliError
from stoker_cli.output import OUTPUT, console, print_json, printable, refusals
from stoker_cli.render import table
from stoker_plugins.asking import ask
from stoker_plugins.discovery import InstalledPlugin, PluginKind, installed_plugins
from stoker_plugins.framework_question import FileHead, FrameworkQuestion
from stoker_plugins.order_questions import LoadQuestion
from stoker_plugins.questions import PluginQuestion
from stoker_tuning.documents.assembly import plugin_document
from stoker_tuning.documents.profile_models import TuningDocument
from stoker_tuning.frameworks.answers import PluginAnswer, PluginRefusedError
from stoker_tuning.frameworks.container_context import container_context
from stoker_tuning.frameworks.interface import MOST_HEAD
from stoker_tuning.vocabulary import ModelFileKind

_COLUMNS = ("PLUGIN", "FOR", "FROM", "CONFIDENCE", "KIND", "BATCH SIZE", "RULES", "TEMPLATES", "LEFT OUT BECAUSE")
_MOST_MANIFEST = 1024 * 1024


@dataclass(frozen=True)
class AskedPlugin:
    """A plug-in with its answer and its rules as a document; or why it is ``refused``. ``kind``: what it knows."""

    kind: PluginKind
    plugin: InstalledPlugin
    answer: PluginAnswer | None = None
    document: TuningDocument | None = None
    refused: str = ""


@click.command(name="plugins")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--pod", type=click.Path(path_type=Path), help="Pod manifest to test the plug-ins with.")
@click.option("--nodes", is_flag=True, help="Show the plug-ins of the cluster's nodes, including order plug-ins.")
@OUTPUT
@click.pass_obj
def plugins_command(target: Target, file: Path | None, pod: Path | None, nodes: bool, output: str) -> None:
    """List the installed plug-ins, and the confidence of framework plug-ins that FILE belongs to their framework.

    A plug-in that fails, hangs or gives invalid answers is left out, with the reason. `stoker tuning orders` shows the
    orders of order plug-ins.
    """
    with refusals():
        if nodes:
            if file is not None or pod is not None:
                raise CliError("--nodes asks no plug-in anything: leave FILE and --pod out")
            asyncio.run(_show_nodes(target, output))
            return
        files = () if file is None else (FileHead(str(file), _read(file, MOST_HEAD)),)
        context = container_context({} if pod is None else _manifest(pod))
        asked = _ask_all(FrameworkQuestion(files, context)) + _ask_all(LoadQuestion())
        if output == "json":
            print_json([_wire(one) for one in asked])
        else:
            console().print(table(_COLUMNS, (_row(one) for one in asked)))


async def _show_nodes(target: Target, output: str) -> None:
    async with connect(target) as cluster:
        found = list(plugins_on_nodes(await cluster.node_caches()))
    if output == "json":
        print_json([one.wire() for one in found])
    elif found:
        console().print(table(COLUMNS, (one.words() for one in found)))
    else:
        click.echo("No node has been asked for a plug-in yet (sidecar.plugins, sidecar.orderPlugins).", err=True)


def plugin_documents() -> list[TuningDocument]:
    """Return the rules and templates of all plug-ins. Writes to standard error why one is left out."""
    asked = _ask_all(FrameworkQuestion())
    for one in asked:
        if one.refused:
            click.echo(f"stoker: {_name(one)} is left out: {printable(one.refused)}", err=True)
    return [one.document for one in asked if one.document is not None]


def _ask_all(question: PluginQuestion[object]) -> list[AskedPlugin]:
    """Ask each installed plug-in of the question's kind, one after the other."""
    return [_asked(plugin, question) for plugin in installed_plugins(question.kind)]


def _asked(plugin: InstalledPlugin, question: PluginQuestion[object]) -> AskedPlugin:
    try:
        answer = ask(plugin, question)
        if isinstance(answer, PluginAnswer):
            return AskedPlugin(question.kind, plugin, answer, plugin_document(answer))
    except PluginRefusedError as error:
        return AskedPlugin(question.kind, plugin, refused=str(error))
    return AskedPlugin(question.kind, plugin)


def _row(one: AskedPlugin) -> list[str]:
    answer = one.answer
    head = [_name(one), one.kind, printable(one.plugin.origin)]
    if answer is None:
        return [*head, "", "", "", "", "", printable(one.refused)]
    kinds = " ".join(kind for kind in answer.kinds if kind is not ModelFileKind.UNKNOWN)
    sure = " ".join(f"{confidence:.2f}" for confidence in answer.confidences)
    batch, counts = answer.hints.get("batch_size", ""), (str(len(answer.rules)), str(len(answer.templates)))
    return [*head, sure, kinds, f"{batch:g}" if batch else "", *counts, ""]


def _name(one: AskedPlugin) -> str:
    return printable(one.plugin.name)


def _wire(one: AskedPlugin) -> dict[str, Any]:
    found: dict[str, Any] = {"name": one.plugin.name, "for": one.kind, "from": one.plugin.origin}
    found["leftOutBecause"] = one.refused or None
    if one.answer is not None:
        answer = one.answer
        found |= {"confidence": next(iter(answer.confidences), None), "hints": dict(answer.hints)}
        found |= {"kind": next((kind for kind in answer.kinds if kind is not ModelFileKind.UNKNOWN), None)}
        found |= {"rules": answer.rules, "templates": answer.templates}
    return found


def _manifest(file: Path) -> Any:
    try:
        return yaml.safe_load(_read(file, _MOST_MANIFEST))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CliError(f"{printable(str(file))} is no YAML: {printable(str(error))}") from error


def _read(file: Path, most: int) -> bytes:
    try:
        with file.open("rb") as source:
            return source.read(most)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CliError(f"{printable(str(file))} cannot be read: {reason}", NOT_FOUND) from error


COLUMNS = ("NODE", "KIND", "PLUGIN", "FROM", "RULES", "TEMPLATES", "WRONG")


@dataclass(frozen=True)
class PluginOnNode:
    """A plug-in as one node has it."""

    node: str
    row: NodePlugin | NodeOrderPlugin

    @property
    def kind(self) -> str:
        """What it is for."""
        return "framework" if isinstance(self.row, NodePlugin) else "order"

    def words(self) -> tuple[str, ...]:
        """Return the cells of a line of the table."""
        row = self.row
        counts = (str(row.rules), str(row.templates)) if isinstance(row, NodePlugin) else ("", "")
        words = (self.node, self.kind, row.name, row.package, *counts, row.message)
        return tuple(printable(word) for word in words)

    def wire(self) -> dict[str, object]:
        """Return it as JSON."""
        return {"node": self.node, "kind": self.kind, **self.row.wire()}


def plugins_on_nodes(caches: Iterable[NodeCache]) -> Iterator[PluginOnNode]:
    """Yield the plug-ins of each node: those of frameworks that were asked, then order plug-ins that may be."""
    for cache in caches:
        rows: tuple[NodePlugin | NodeOrderPlugin, ...] = (*cache.status.plugins, *cache.status.order_plugins)
        for row in rows:
            yield PluginOnNode(cache.metadata.name, row)

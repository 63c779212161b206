"""What `stoker tuning plugins` shows: the installed framework plug-ins, what they say, and which are left out."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from stoker_cli import plugins_on_nodes
from stoker_cli.cluster import Target, connect
from stoker_cli.errors import NOT_FOUND, CliError
from stoker_cli.output import OUTPUT, console, print_json, refusals
from stoker_cli.render import table
from stoker_cli.tuning_rows import printable
from stoker_plugins.asking import FileHead, ask
from stoker_plugins.discovery import InstalledPlugin, installed_plugins
from stoker_tuning.documents.plugin_documents import plugin_document
from stoker_tuning.documents.profile_models import TuningDocument
from stoker_tuning.frameworks.answers import PluginAnswer, PluginRefusedError
from stoker_tuning.frameworks.container_context import container_context
from stoker_tuning.frameworks.interface import MOST_HEAD
from stoker_tuning.vocabulary import ModelFileKind

_COLUMNS = ("PLUGIN", "FROM", "CONFIDENCE", "KIND", "BATCH SIZE", "RULES", "TEMPLATES", "LEFT OUT BECAUSE")
_NO_CONTAINER: Mapping[str, Any] = container_context({})
_MOST_MANIFEST = 1024 * 1024


@dataclass(frozen=True)
class AskedPlugin:
    """A plug-in and what it said, with its rules as a document; ``refused``: why it is left out instead."""

    plugin: InstalledPlugin
    answer: PluginAnswer | None = None
    document: TuningDocument | None = None
    refused: str = ""


@click.command(name="plugins")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--pod", type=click.Path(path_type=Path), help="A pod's manifest, which plug-ins are asked about too.")
@click.option("--nodes", is_flag=True, help="What the cluster's nodes say of theirs, also of order plug-ins.")
@OUTPUT
@click.pass_obj
def plugins_command(target: Target, file: Path | None, pod: Path | None, nodes: bool, output: str) -> None:
    """List the framework plug-ins that are installed, and how sure each is that FILE is of its framework.

    A plug-in that raises, hangs or answers what it may not is left out, and the reason is told. Order plug-ins that are
    installed here are shown by `stoker tuning orders`.
    """
    with refusals():
        if nodes:
            if file is not None or pod is not None:
                raise CliError("--nodes asks no plug-in anything: leave FILE and --pod out")
            asyncio.run(_show_nodes(target, output))
            return
        files = [] if file is None else [FileHead(str(file), _head(file))]
        asked = ask_all(files, _NO_CONTAINER if pod is None else container_context(_manifest(pod)))
        if output == "json":
            print_json([_wire(one) for one in asked])
        else:
            console().print(table(_COLUMNS, (_row(one) for one in asked)))


async def _show_nodes(target: Target, output: str) -> None:
    async with connect(target) as cluster:
        found = list(plugins_on_nodes.plugins_on_nodes(await cluster.node_caches()))
    if output == "json":
        print_json([one.wire() for one in found])
    elif found:
        console().print(table(plugins_on_nodes.COLUMNS, (one.words() for one in found)))
    else:
        click.echo("No node has been asked for a plug-in yet (sidecar.plugins, sidecar.orderPlugins).", err=True)


def ask_all(files: Sequence[FileHead] = (), context: Mapping[str, Any] = _NO_CONTAINER) -> list[AskedPlugin]:
    """Ask every installed plug-in, one after the other."""
    return [_asked(plugin, files, context) for plugin in installed_plugins()]


def plugin_documents() -> list[TuningDocument]:
    """Return the rules and templates of all plug-ins that can be asked; says on standard error which cannot."""
    asked = ask_all()
    for one in asked:
        if one.refused:
            click.echo(f"stoker: {_name(one)} is left out: {printable(one.refused)}", err=True)
    return [one.document for one in asked if one.document is not None]


def _asked(plugin: InstalledPlugin, files: Sequence[FileHead], context: Mapping[str, Any]) -> AskedPlugin:
    try:
        answer = ask(plugin, files, context)
        return AskedPlugin(plugin, answer, plugin_document(answer))
    except PluginRefusedError as error:
        return AskedPlugin(plugin, refused=str(error))


def _row(one: AskedPlugin) -> list[str]:
    answer = one.answer
    if answer is None:
        return [_name(one), printable(one.plugin.origin), "", "", "", "", "", printable(one.refused)]
    kinds = " ".join(kind for kind in answer.kinds if kind is not ModelFileKind.UNKNOWN)
    sure = " ".join(f"{confidence:.2f}" for confidence in answer.confidences)
    batch, counts = answer.hints.get("batch_size", ""), (str(len(answer.rules)), str(len(answer.templates)))
    return [_name(one), printable(one.plugin.origin), sure, kinds, f"{batch:g}" if batch else "", *counts, ""]


def _name(one: AskedPlugin) -> str:
    return printable(one.plugin.name)


def _wire(one: AskedPlugin) -> dict[str, Any]:
    found: dict[str, Any] = {"name": one.plugin.name, "from": one.plugin.origin, "leftOutBecause": one.refused or None}
    if one.answer is not None:
        answer = one.answer
        found |= {"confidence": next(iter(answer.confidences), None), "hints": dict(answer.hints)}
        found |= {"kind": next((kind for kind in answer.kinds if kind is not ModelFileKind.UNKNOWN), None)}
        found |= {"rules": answer.rules, "templates": answer.templates}
    return found


def _head(file: Path) -> bytes:
    return _read(file, MOST_HEAD)


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

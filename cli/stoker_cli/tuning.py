"""The commands of `stoker tuning`: documents are checked, tried on a folder and explained, without a cluster."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from stoker_cli import render, tuning_rows
from stoker_cli.cluster import Target, connect
from stoker_cli.errors import FAILED, NOT_FOUND, CliError
from stoker_cli.local_mounts import LocalMount, LocalMountPath, of_a_mount
from stoker_cli.output import OUTPUT, console, print_json, refusals
from stoker_cli.pod_rules import RulesInUse, profiles_wanted, rules_in_use
from stoker_cli.pod_tuning import PodTuning, find_pod, pod_tuning
from stoker_cli.tuning_files import files_below
from stoker_cli.tuning_history import history_command
from stoker_cli.tuning_orders import orders_command
from stoker_cli.tuning_plugins import plugin_documents, plugins_command
from stoker_cli.tuning_replay import replay_command
from stoker_cli.tuning_rows import Trial, explanation_lines, value_rows
from stoker_tuning.documents.assembly import TuningRules, builtin_rules, read_profile
from stoker_tuning.documents.errors import DocumentError
from stoker_tuning.documents.profile_models import TuningDocument
from stoker_tuning.documents.tree import MOST_BYTES
from stoker_tuning.documents.values import parse_bytes
from stoker_tuning.recommend.recommendation import recommend
from stoker_tuning.rules.compiled import compile_rules
from stoker_tuning.rules.facts import AccessFacts, FileFacts, Surroundings, SystemFacts, WorkloadFacts
from stoker_tuning.rules.file_rules import FileRules
from stoker_tuning.rules.merging import given_values
from stoker_tuning.vocabulary import AccessPattern, ModelFileKind, RuleLayer, Split, TrainingPhase

_PLUGINS = click.option("--plugins", is_flag=True, help="Also the rules of the installed framework plug-ins.")
_EVERY = 1_000  # files between two looks at the progress
# The sign keeps click from making one paragraph of the lines.
_EXPLAIN_EXAMPLES = """\b
Examples:
  stoker tuning explain mine.yaml train/000001.tar --size 1Gi --phase Training
  stoker tuning explain resnet-0 -n vision
  stoker tuning explain vision/resnet-0 --profile mine.yaml --all
  stoker tuning explain --mount /data
"""


class _Size(click.ParamType[int]):
    """Bytes, as documents write them."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_bytes(int(value) if str(value).isdecimal() else value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _choice(name: str, words: Any, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=click.Choice([str(word) for word in words]), help=text)


_AROUND = (
    _choice("--phase", TrainingPhase, "What the workload does."),
    click.option("--framework", help="What it trains with, such as pytorch."),
    click.option("--batch-size", type=float, help="Items of a batch."),
    click.option("--job", help="Its name."),
    click.option("--workload-namespace", help="Its namespace."),
    _choice("--model-kind", ModelFileKind, "Which model files it loads or saves."),
    _choice("--pattern", AccessPattern, "In which order it reads."),
    click.option("--items-per-second", type=float, help="How many it reads."),
    click.option("--memory", type=_Size(), help="The node's memory."),
    click.option("--gpus", type=float, help="The node's GPUs."),
    click.option("--bandwidth", type=_Size(), help="Bytes a second from the store."),
    click.option("--disk", type=_Size(), help="Room for the cache on the node's disks."),
)


def _around(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say what rules know of workload and node; what is left out is not known."""
    for option in reversed(_AROUND):
        command = option(command)
    return command


def _surroundings(options: dict[str, Any]) -> Surroundings:
    phase, kind, pattern = options["phase"], options["model_kind"], options["pattern"]
    workload = WorkloadFacts(
        options["framework"],
        TrainingPhase(phase) if phase else None,
        options["batch_size"],
        options["job"],
        options["workload_namespace"],
        ModelFileKind(kind) if kind else None,
    )
    access = AccessFacts(AccessPattern(pattern) if pattern else None, options["items_per_second"])
    system = SystemFacts(options["memory"], options["gpus"], options["bandwidth"], options["disk"])
    return Surroundings(access, workload, system)


@click.group()
def tuning() -> None:
    """Check and try documents of tuning rules (docs/RULES.md), and see what came of them."""


tuning.add_command(replay_command)
tuning.add_command(history_command)
tuning.add_command(orders_command)
tuning.add_command(plugins_command)


@tuning.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@_PLUGINS
@OUTPUT
def validate(files: tuple[Path, ...], plugins: bool, output: str) -> None:
    """Check documents: each problem is told with its line, its column and what may be meant.

    Exit codes: 0 all are good, 1 one is not, 3 one cannot be read.
    """
    with refusals():
        known = plugin_documents() if plugins else []
        verdicts = [(str(file), _checked(file, known)) for file in files]
        if output == "json":
            print_json([tuning_rows.verdict(file, found) for file, found in verdicts])
        else:
            for file, found in verdicts:
                click.echo("\n".join(tuning_rows.verdict_lines(file, found)))
        if any(isinstance(found, DocumentError) for _, found in verdicts):
            sys.exit(FAILED)


@tuning.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--files", "each", is_flag=True, help="A line for each file, with the rules that apply to it.")
@click.option("--all", "every", is_flag=True, help="Also the built-in rules that apply to no file.")
@_PLUGINS
@_around
@OUTPUT
def test(file: Path, folder: Path, each: bool, every: bool, plugins: bool, output: str, **options: Any) -> None:
    """Try the rules of FILE, and the built-in ones, on the files of FOLDER: what would apply to how many.

    Nothing is changed. What options leave out is not known to the rules, and holds for none of them.
    """
    with refusals():
        rules = _profile(file, plugin_documents() if plugins else [])
        compiled = compile_rules(list(rules.rules))
        trial = Trial(compiled, FileRules(compiled, _surroundings(options)))
        told = _try(trial, folder, tell=each and output == "table", keep=each and output == "json")
        if output == "json":
            print_json(trial.wire() | ({"each": told} if each else {}))
        else:
            shown = [
                row for row, spec, count in trial.rows() if every or count or spec.origin.layer is RuleLayer.CUSTOM
            ]
            console().print(render.table(tuning_rows.RULE_COLUMNS, shown))
            click.echo(trial.sentence())


def _try(trial: Trial, folder: Path, *, tell: bool, keep: bool) -> dict[str, list[str]]:
    """Count every file; with ``keep`` return the rules of each by its path."""
    kept: dict[str, list[str]] = {}
    shown = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} files of {task.description}"))
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task(tuning_rows.printable(str(folder)), total=None)
        for number, facts in enumerate(files_below(folder), 1):
            names = trial.add(facts)
            if tell:
                click.echo(f"{tuning_rows.printable(facts.path)}\t{' '.join(names) or '-'}")
            if number % _EVERY == 0:
                progress.update(task, completed=number)
            if keep:
                kept[facts.path] = names
    return kept


@tuning.command(epilog=_EXPLAIN_EXAMPLES)
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="FILE|POD")
@click.argument("path", required=False)
@of_a_mount
@click.option("-n", "--namespace", help="Of POD; default: the context's namespace.")
@click.option("--profile", type=click.Path(path_type=Path), help="With POD: a document, in place of what is in force.")
@click.option("--size", type=_Size(), help="The file's size; default: that of PATH, where it is a file here.")
@_choice("--kind", ModelFileKind, "What the file is to a model.")
@_choice("--split", Split, "Which part of its Dataset the file belongs to.")
@click.option("--all", "every", is_flag=True, help="Also the rules that do not apply, and what they lack.")
@_PLUGINS
@_around
@OUTPUT
@click.pass_obj
def explain(
    target: Target,
    /,
    file: Path | None,
    path: str | None,
    mount: LocalMountPath | None,
    namespace: str | None,
    profile: Path | None,
    size: int | None,
    kind: str | None,
    split: str | None,
    every: bool,
    plugins: bool,
    output: str,
    **options: Any,
) -> None:
    """Say what is recommended for the file PATH of a Dataset, and which rule of FILE or built-in one says so.

    With POD, as a node tells of it now: what is recommended for its Datasets as wholes, by the rules that are in force
    for them there, or those of --profile. What options say besides is of the node.
    """
    with refusals():
        known = plugin_documents() if plugins else []
        if mount is not None:
            _explain_mount(mount.find(), profile, known, _surroundings(options).system, output, every=every)
            return
        if file is None:
            raise click.UsageError("Name a FILE with a PATH, a POD, or a --mount.")
        if path is None:
            system = _surroundings(options).system
            _explain_pod(target, str(file), namespace, profile, known, system, output, every=every)
            return
        surroundings = _surroundings(options)
        facts = FileFacts(
            path.lstrip("/"),
            _size_of(Path(path)) if size is None else size,
            ModelFileKind(kind) if kind else None,
            Split(split) if split else None,
        )
        rules = compile_rules(list(_profile(file, known).rules))
        applying = FileRules(rules, surroundings).applying(facts)
        explained = recommend(given_values(rules, applying, facts), surroundings)
        if output == "json":
            print_json(tuning_rows.explained_wire(rules, explained, surroundings, facts))
            return
        console().print(render.table(tuning_rows.VALUE_COLUMNS, value_rows(explained)))
        for line in explanation_lines(rules, surroundings, facts, every=every):
            click.echo(line)


def _explain_pod(
    target: Target,
    pod: str,
    namespace: str | None,
    profile: Path | None,
    plugins: Sequence[TuningDocument],
    system: SystemFacts,
    output: str,
    *,
    every: bool,
) -> None:
    name = pod if "/" in pod else f"{namespace or target.own_namespace}/{pod}"
    given: RulesInUse | None = None
    if profile is not None:
        told = f"the rules of {profile} and the built-in ones"
        given = RulesInUse((), _profile(profile, plugins).rules, told)
    found = asyncio.run(_ask_nodes(target, name, given, plugins, system))
    if output == "json":
        first, *others = (each.wire() for each in found)
        print_json(first | {"others": others})
        return
    for each in found:
        _show_pod(each, every=every)


def _explain_mount(
    mount: LocalMount,
    profile: Path | None,
    plugins: Sequence[TuningDocument],
    system: SystemFacts,
    output: str,
    *,
    every: bool,
) -> None:
    figures = mount.figures()
    cache = mount.node_cache(figures)
    if not cache.status.workloads:
        raise CliError(f"Nobody has read {tuning_rows.printable(str(mount.folder))} lately.", NOT_FOUND)
    (row,) = cache.status.workloads
    file = profile or (Path(figures.tuning) if figures.tuning else None)
    told = f"the rules of {file} and the built-in ones" if file else "the built-in rules"
    rules = _profile(file, plugins).rules if file else tuple(builtin_rules(plugins=plugins))
    found = pod_tuning(cache, row, RulesInUse(row.datasets, rules, told), system)
    if output == "json":
        print_json(found.wire())
    else:
        _show_pod(found, every=every)


def _show_pod(found: PodTuning, *, every: bool) -> None:
    head, reads, *lines = found.lines(every=every)
    click.echo(head)
    click.echo(reads)
    console().print(render.table(tuning_rows.VALUE_COLUMNS, value_rows(found.explained)))
    for line in lines:
        click.echo(line)


async def _ask_nodes(
    target: Target, pod: str, given: RulesInUse | None, plugins: Sequence[TuningDocument], system: SystemFacts
) -> list[PodTuning]:
    """Ask the nodes for a pod; ``given``: the rules to explain, in place of those that are in force."""
    async with connect(target) as cluster:
        cache, row = find_pod(await cluster.node_caches(), pod)
        if given is not None:
            return [pod_tuning(cache, row, replace(given, datasets=row.datasets), system)]
        profiles = {name: each for name in profiles_wanted(cache, row) if (each := await cluster.tuning_profile(name))}
    return [pod_tuning(cache, row, each, system) for each in rules_in_use(cache, row, profiles, plugins)]


def _size_of(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except (OSError, ValueError):  # a name that no file here can have
        return None


def _checked(file: Path, plugins: Sequence[TuningDocument]) -> TuningRules | DocumentError:
    try:
        return read_profile(_read(file), plugins)
    except DocumentError as error:
        return error


def _profile(file: Path, plugins: Sequence[TuningDocument]) -> TuningRules:
    found = _checked(file, plugins)
    if isinstance(found, DocumentError):
        raise CliError("\n".join(tuning_rows.verdict_lines(str(file), found)))
    return found


def _read(file: Path) -> bytes:
    """Read a document, and no more of it than one can have. Raises CliError."""
    try:
        with file.open("rb") as source:
            return source.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CliError(f"{tuning_rows.printable(str(file))} cannot be read: {reason}", NOT_FOUND) from error

"""The commands of `stoker tuning`: validate, test and explain rules."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from stoker_cli import render
from stoker_cli.access.cluster import Target, connect
from stoker_cli.errors import FAILED, NOT_FOUND, CliError, NodesRefusedError
from stoker_cli.local.local_mounts import LocalMount, LocalMountPath, with_mount_options
from stoker_cli.output import OUTPUT, console, print_json, printable, refusals
from stoker_cli.tuning import rows
from stoker_cli.tuning.effects import RuleEffects, effects_in_history
from stoker_cli.tuning.files import files_below
from stoker_cli.tuning.history import history_command
from stoker_cli.tuning.orders import orders_command
from stoker_cli.tuning.plugins import plugin_documents, plugins_command
from stoker_cli.tuning.pod_rules import UNKNOWN_RULES, RulesInUse, profiles_wanted, rules_in_use
from stoker_cli.tuning.pod_tuning import PodTuning, find_pod, pod_tuning
from stoker_cli.tuning.replayed import replay_command
from stoker_cli.tuning.rows import Trial, explanation_lines, value_rows
from stoker_tuning.documents.assembly import TuningRules, builtin_rules, read_profile
from stoker_tuning.documents.errors import DocumentError, Problem
from stoker_tuning.documents.lint import lint_document
from stoker_tuning.documents.named_sets import named_sets
from stoker_tuning.documents.profile_models import TuningDocument
from stoker_tuning.documents.tree import MOST_BYTES
from stoker_tuning.documents.values import parse_bytes
from stoker_tuning.recommend.recommendation import Explained, recommend
from stoker_tuning.rules.compiled import compile_rules
from stoker_tuning.rules.facts import AccessFacts, FileFacts, Surroundings, SystemFacts, WorkloadFacts
from stoker_tuning.rules.file_rules import FileRules
from stoker_tuning.rules.merging import given_values
from stoker_tuning.vocabulary import AccessPattern, ModelFileKind, RuleLayer, Split, TrainingPhase

_PLUGINS = click.option("--plugins", is_flag=True, help="Include the rules of installed framework plug-ins.")
_MOST_HISTORY = 1_000  # rows, as many as a mount returns
_EVERY = 1_000  # files between two updates of the progress
# \b keeps click from joining the lines.
_EXPLAIN_EXAMPLES = """\b
Examples:
  stoker tuning explain mine.yaml train/000001.tar --size 1Gi --phase Training
  stoker tuning explain resnet-0 -n vision
  stoker tuning explain vision/resnet-0 --profile mine.yaml --all
  stoker tuning explain --mount /data
"""


class _Size(click.ParamType[int]):
    """Bytes, as in documents."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_bytes(int(value) if str(value).isdecimal() else value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _choice(name: str, words: Any, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=click.Choice([str(word) for word in words]), help=text)


_AROUND = (
    _choice("--phase", TrainingPhase, "Training phase of the pod."),
    click.option("--framework", help="Framework, such as pytorch."),
    click.option("--batch-size", type=float, help="Batch size."),
    click.option("--job", help="Name of the job."),
    click.option("--workload-namespace", help="Namespace of the pod."),
    _choice("--model-kind", ModelFileKind, "Kind of model files that the pod reads or writes."),
    _choice("--pattern", AccessPattern, "Access pattern of the pod."),
    click.option("--items-per-second", type=float, help="Read rate of the pod."),
    click.option("--memory", type=_Size(), help="Memory of the node."),
    click.option("--gpus", type=float, help="Number of GPUs of the node."),
    click.option("--bandwidth", type=_Size(), help="Bandwidth of the object store, in bytes per second."),
    click.option("--disk", type=_Size(), help="Size of the node's cache disks."),
)


def _around(command: Callable[..., None]) -> Callable[..., None]:
    """Add options for the facts about workload and node. Facts without an option are unknown."""
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
    """Validate and test tuning rules (docs/reference/rules.md), and show their effects."""


tuning.add_command(replay_command)
tuning.add_command(history_command)
tuning.add_command(orders_command)
tuning.add_command(plugins_command)


@tuning.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@_PLUGINS
@OUTPUT
def validate(files: tuple[Path, ...], plugins: bool, output: str) -> None:
    """Check documents. Problems and warnings have a line, a column and a suggestion.

    Warnings are parts without effect, and words that kubectl reads as true or false. Exit codes: 0 all documents are
    valid, 1 one is invalid, 3 one cannot be read.
    """
    with refusals():
        installed = plugin_documents() if plugins else []
        verdicts = [(str(file), *_linted(file, installed)) for file in files]
        if output == "json":
            print_json([rows.verdict(*each) for each in verdicts])
        else:
            for each in verdicts:
                click.echo("\n".join(rows.verdict_lines(*each)))
        if any(isinstance(result, DocumentError) for _, result, _ in verdicts):
            sys.exit(FAILED)


@tuning.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--files", "each", is_flag=True, help="Also list each file with its matching rules.")
@click.option("--all", "every", is_flag=True, help="Include built-in rules that match no file.")
@_PLUGINS
@_around
@OUTPUT
def test(file: Path, folder: Path, each: bool, every: bool, plugins: bool, output: str, **options: Any) -> None:
    """Count the files of FOLDER that each rule of FILE, and each built-in rule, matches.

    Changes nothing. Conditions on facts without an option do not match.
    """
    with refusals():
        rules = _profile(file, plugin_documents() if plugins else [])
        compiled = compile_rules(list(rules.rules))
        trial = Trial(compiled, FileRules(compiled, _surroundings(options)))
        rules_by_path = _try(trial, folder, tell=each and output == "table", keep=each and output == "json")
        if output == "json":
            print_json(trial.wire() | ({"each": rules_by_path} if each else {}))
        else:
            shown = [
                row for row, spec, count in trial.rows() if every or count or spec.origin.layer is RuleLayer.CUSTOM
            ]
            console().print(render.table(rows.RULE_COLUMNS, shown))
            click.echo(trial.sentence())


def _try(trial: Trial, folder: Path, *, tell: bool, keep: bool) -> dict[str, list[str]]:
    """Count every file. With ``keep``, return the rules of each path."""
    kept: dict[str, list[str]] = {}
    shown = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} files of {task.description}"))
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task(printable(str(folder)), total=None)
        for number, facts in enumerate(files_below(folder), 1):
            names = trial.add(facts)
            if tell:
                click.echo(f"{printable(facts.path)}\t{' '.join(names) or '-'}")
            if number % _EVERY == 0:
                progress.update(task, completed=number)
            if keep:
                kept[facts.path] = names
    return kept


@tuning.command(epilog=_EXPLAIN_EXAMPLES)
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="FILE|POD")
@click.argument("path", required=False)
@with_mount_options
@click.option("-n", "--namespace", help="Namespace of POD. Default: the context's namespace.")
@click.option(
    "--profile", type=click.Path(path_type=Path), help="With POD: use this document instead of the profiles in force."
)
@click.option("--size", type=_Size(), help="Size of the file. Default: the size of PATH, if that is a local file.")
@_choice("--kind", ModelFileKind, "Kind of model file.")
@_choice("--split", Split, "Split of the Dataset that the file belongs to.")
@click.option("--all", "every", is_flag=True, help="Also list rules that do not match.")
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
    """Show the tuning values in force for the file PATH of a Dataset, and the rule or level that sets each.

    With POD, shows the values for the Datasets of a running pod, by the
    rules in force on its node or in --profile, and the measured effect of each rule.
    Other options then describe the node.
    """
    with refusals():
        installed = plugin_documents() if plugins else []
        if mount is not None:
            _explain_mount(mount.find(), profile, installed, _surroundings(options).system, output, every=every)
            return
        if file is None:
            raise click.UsageError("Name a FILE with a PATH, a POD, or a --mount.")
        if path is None:
            system = _surroundings(options).system
            _explain_pod(target, str(file), namespace, profile, installed, system, output, every=every)
            return
        surroundings = _surroundings(options)
        facts = FileFacts(
            path.lstrip("/"),
            _size_of(Path(path)) if size is None else size,
            ModelFileKind(kind) if kind else None,
            Split(split) if split else None,
        )
        rules = compile_rules(list(_profile(file, installed).rules))
        applying = FileRules(rules, surroundings).applying(facts)
        explained = recommend(given_values(rules, applying, facts), named_sets())
        if output == "json":
            print_json(rows.explained_wire(rules, explained, surroundings, facts))
            return
        model = kind is not None and kind != ModelFileKind.UNKNOWN
        _show_values(explained, model=model)
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
        description = f"the rules of {profile} and the built-in ones"
        given = RulesInUse((), _profile(profile, plugins).rules, description)
    explained = asyncio.run(_ask_nodes(target, name, given, plugins, system))
    if output == "json":
        first, *others = (each.wire() for each in explained)
        print_json(first | {"others": others})
        return
    for each in explained:
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
        raise CliError(f"No recent reads of {printable(str(mount.folder))}.", NOT_FOUND)
    (row,) = cache.status.workloads
    file = profile or (Path(figures.tuning) if figures.tuning else None)
    description = f"the rules of {file} and the built-in ones" if file else "the built-in rules"
    rules = _profile(file, plugins).rules if file else tuple(builtin_rules(plugins=plugins))
    effects = effects_in_history(mount.history("change", _MOST_HISTORY))
    explained = pod_tuning(cache, row, RulesInUse(row.datasets, rules, description), system, effects)
    if output == "json":
        print_json(explained.wire())
    else:
        _show_pod(explained, every=every)


def _show_pod(pod: PodTuning, *, every: bool) -> None:
    head, reads, *lines = pod.lines(every=every)
    click.echo(head)
    click.echo(reads)
    _show_values(pod.explained, effects=pod.effects)
    for line in lines:
        click.echo(line)


def _show_values(explained: Explained, *, model: bool = False, effects: RuleEffects | None = None) -> None:
    columns = rows.VALUE_COLUMNS if effects is None else (*rows.VALUE_COLUMNS, rows.EFFECT_COLUMN)
    console().print(render.table(columns, list(value_rows(explained, model=model, effects=effects))))


async def _ask_nodes(
    target: Target, pod: str, given: RulesInUse | None, plugins: Sequence[TuningDocument], system: SystemFacts
) -> list[PodTuning]:
    """Find a pod in NodeCaches and explain its tuning. ``given``: rules in place of those in force."""
    async with connect(target) as cluster:
        try:
            cache, row = find_pod(await cluster.node_caches(), pod)
        except NodesRefusedError:
            cache, row = find_pod(await cluster.workload_caches(pod.partition("/")[0]), pod)
            given = given or RulesInUse((), tuple(builtin_rules(plugins=plugins)), "the built-in rules", UNKNOWN_RULES)
        if given is not None:
            return [pod_tuning(cache, row, replace(given, datasets=row.datasets), system)]
        profiles = {name: each for name in profiles_wanted(cache, row) if (each := await cluster.tuning_profile(name))}
    return [pod_tuning(cache, row, each, system) for each in rules_in_use(cache, row, profiles, plugins)]


def _size_of(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except (OSError, ValueError):  # an invalid file name
        return None


def _linted(file: Path, plugins: Sequence[TuningDocument]) -> tuple[TuningRules | DocumentError, tuple[Problem, ...]]:
    source = _read(file)
    try:
        return read_profile(source, plugins), lint_document(source, plugins)
    except DocumentError as error:
        return error, ()


def _checked(file: Path, plugins: Sequence[TuningDocument]) -> TuningRules | DocumentError:
    try:
        return read_profile(_read(file), plugins)
    except DocumentError as error:
        return error


def _profile(file: Path, plugins: Sequence[TuningDocument]) -> TuningRules:
    result = _checked(file, plugins)
    if isinstance(result, DocumentError):
        raise CliError("\n".join(rows.verdict_lines(str(file), result)))
    return result


def _read(file: Path) -> bytes:
    """Read a document up to the size limit. Raises CliError."""
    try:
        with file.open("rb") as source:
            return source.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CliError(f"Cannot read {printable(str(file))}: {reason}", NOT_FOUND) from error

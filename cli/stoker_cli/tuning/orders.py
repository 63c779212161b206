"""What `stoker tuning orders` shows: whose orders are known, and whether one is that of a training's own code."""

import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import click

from stoker_cli.errors import FAILED, NOT_FOUND, CliError
from stoker_cli.output import OUTPUT, console, print_json, printable, refusals
from stoker_cli.render import table
from stoker_orders.builtin_orders import BuiltInOrder
from stoker_orders.job_order import MOST_SAMPLES
from stoker_orders.loader_schedule import Loading, rank_order
from stoker_orders.predictors.interface import OrderQuestion
from stoker_orders.predictors.samplers import OF_A_PLUGIN, SamplerName
from stoker_plugins.asking import ask
from stoker_plugins.discovery import OURS, InstalledPlugin, PluginKind, installed_plugins
from stoker_plugins.order_questions import EpochQuestion, check_order
from stoker_tuning.frameworks.answers import PluginRefusedError

_COLUMNS = ("SAMPLER", "FROM", "SAMPLES", "READS FIRST", "SECONDS", "LEFT OUT BECAUSE")
_SHOWN = 8  # samples of a row
_MANY = 500_000  # samples whose order takes long enough that progress is told
# What the built-in samplers that need a parameter are tried with, where none is given.
_NEEDED = {SamplerName.STOKER_GROUP_SHUFFLE: {"groupSize": "16"}, SamplerName.STOKER_QUALITY_RATIO: {"ratio": "1/2"}}
_MOST_FILE = 16 * MOST_SAMPLES
# The sign keeps click from making one paragraph of the lines.
_EXAMPLES = """\b
Examples:
  stoker tuning orders
  stoker tuning orders plugin:mine --samples 1281167 --seed 42 --epoch 3 --ranks 8
  stoker tuning orders torch-distributed --samples 1000 --ranks 4 --rank 1 --against seen.txt
"""


@dataclass(frozen=True)
class KnownOrder:
    """A sampler and what a rank reads in its order; ``refused``: why it is left out instead."""

    name: str
    origin: str
    samples: Sequence[int] = ()
    seconds: float = 0.0
    refused: str = ""


@click.command(name="orders", epilog=_EXAMPLES)
@click.argument("sampler", required=False)
@click.option("--samples", type=click.IntRange(1, MOST_SAMPLES), default=1000, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--epoch", type=click.IntRange(0), default=0, show_default=True)
@click.option("--ranks", type=click.IntRange(1, 100_000), default=1, show_default=True)
@click.option("--rank", type=click.IntRange(0), default=0, show_default=True, help="Rank whose order is shown.")
@click.option(
    "--batch", type=click.IntRange(1, 1_000_000), default=1, show_default=True, help="Samples per batch of one rank."
)
@click.option("--drop-last", is_flag=True, help="Drop the samples that do not divide evenly among the ranks.")
@click.option("--set", "given", multiple=True, metavar="NAME=TEXT", help="Parameter of the sampler; repeatable.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    help="Compare with the samples that the rank read, one number per line.",
)
@OUTPUT
def orders_command(
    sampler: str | None, given: tuple[str, ...], rank: int, against: Path | None, output: str, **asked: Any
) -> None:
    """List the known samplers, or show the order of one epoch of SAMPLER.

    Includes order plug-ins of installed packages. A plug-in that fails, hangs, or gives invalid or changing answers is
    left out, with the reason.
    """
    with refusals():
        if rank >= asked["ranks"]:
            raise CliError(f"--rank {rank} is none of the {asked['ranks']} ranks, which begin at 0")
        if against is not None and sampler is None:
            raise CliError("--against is about one order: name its sampler")
        question = OrderQuestion(**asked, parameters=_parameters(given))
        found = known_orders(sampler, question, rank)
        if sampler is not None and not found:
            raise CliError(f"there is no sampler {printable(sampler)}: stoker tuning orders lists them", NOT_FOUND)
        if output == "json":
            print_json([_wire(one, whole=sampler is not None) for one in found])
        else:
            console().print(table(_COLUMNS, (_row(one) for one in found)))
        if against is not None:
            _compare(found[0], _seen(against), str(against))


def known_orders(sampler: str | None, question: OrderQuestion, rank: int) -> list[KnownOrder]:
    """Ask for an order of each sampler, or of the one that is named. Blocks."""
    builtin = [_builtin(name, question, rank) for name in SamplerName if sampler in (None, name)]
    plugins = [one for one in installed_plugins(PluginKind.ORDER) if sampler in (None, f"{OF_A_PLUGIN}{one.name}")]
    return builtin + [_told(one, question, rank) for one in plugins]


def _progress(name: str, question: OrderQuestion) -> None:
    """Say on standard error what is being asked, where that takes seconds."""
    if question.samples >= _MANY:
        click.echo(f"computing {question.samples} samples of {printable(name)}", err=True)


def _builtin(name: SamplerName, question: OrderQuestion, rank: int) -> KnownOrder:
    _progress(name, question)
    parameters = _NEEDED.get(name, {}) | dict(question.parameters)
    began = time.perf_counter()
    try:
        order = BuiltInOrder(name).order(question.mapping() | {"parameters": parameters})
        check_order(order, question)
    except (ValueError, PluginRefusedError) as error:
        return KnownOrder(name, OURS, refused=str(error))
    return KnownOrder(name, OURS, _of_rank(order, question, rank), time.perf_counter() - began)


def _told(plugin: InstalledPlugin, question: OrderQuestion, rank: int) -> KnownOrder:
    name = f"{OF_A_PLUGIN}{plugin.name}"
    _progress(name, question)
    try:
        began = time.perf_counter()
        order = ask(plugin, EpochQuestion(question))
        seconds = time.perf_counter() - began
        if ask(plugin, EpochQuestion(question)) != order:
            raise PluginRefusedError("it tells another order when it is asked the same again")
    except PluginRefusedError as error:
        return KnownOrder(name, plugin.origin, refused=str(error))
    return KnownOrder(name, plugin.origin, _of_rank(order, question, rank), seconds)


def _of_rank(order: "array[int]", question: OrderQuestion, rank: int) -> list[int]:
    return rank_order(order, Loading(len(order), question.ranks, (rank,), drop_last=question.drop_last), rank)


def _parameters(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in given]
    for name, sign, _ in pairs:
        if not name or not sign:
            raise CliError(f"--set {printable(name)} is no NAME=TEXT")
    return tuple(sorted({name: text for name, _, text in pairs}.items()))


def _seen(file: Path) -> list[int]:
    """Read the samples that a training says it read. Raises CliError."""
    try:
        with file.open("rb") as source:
            words = source.read(_MOST_FILE).split()
        return [int(word) for word in words]
    except OSError as error:
        raise CliError(f"{printable(str(file))} cannot be read: {error.strerror}", NOT_FOUND) from error
    except ValueError as error:
        raise CliError(f"{printable(str(file))} is no list of numbers, one a line") from error


def _compare(known: KnownOrder, seen: Sequence[int], file: str) -> None:
    """Say whether what was read is the order. Raises CliError where it is not."""
    if known.refused:
        raise CliError(f"{printable(known.name)} is left out: {printable(known.refused)}", FAILED)
    if not seen:
        raise CliError(f"{printable(file)} names no sample")
    pairs = enumerate(zip(seen, known.samples, strict=False))
    at = next((place for place, (one, other) in pairs if one != other), min(len(seen), len(known.samples)))
    if at < len(seen):
        due = str(known.samples[at]) if at < len(known.samples) else "the end"
        raise CliError(f"read {at} was sample {seen[at]}, where {due} is due: the orders differ", FAILED)
    click.echo(f"all {len(seen)} samples of {printable(file)} come as {printable(known.name)} tells", err=True)


def _row(one: KnownOrder) -> list[str]:
    if one.refused:
        return [printable(one.name), printable(one.origin), "", "", "", printable(one.refused)]
    first = " ".join(map(str, islice(one.samples, _SHOWN)))
    return [printable(one.name), printable(one.origin), str(len(one.samples)), first, f"{one.seconds:.2f}", ""]


def _wire(one: KnownOrder, *, whole: bool) -> Mapping[str, Any]:
    order = list(one.samples) if whole else list(one.samples[:_SHOWN])
    found = {"name": one.name, "from": one.origin, "leftOutBecause": one.refused or None}
    return found if one.refused else found | {"samples": len(one.samples), "seconds": one.seconds, "order": order}

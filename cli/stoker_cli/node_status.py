"""What `stoker status --nodes` shows: a bar while nodes are asked, then their rows."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import Progress

from stoker_cli.cluster import Target, connect
from stoker_cli.errors import UNREACHABLE, CliError
from stoker_cli.node_answers import DATASET_COLUMNS, NODE_COLUMNS, AskedNode, ask_nodes
from stoker_cli.output import console, print_json
from stoker_cli.render import table


async def show_nodes(target: Target, name: str | None, seconds: float, output: str) -> None:
    """Ask all nodes about one Dataset, or about all, and show what each says. Raises CliError where none answers."""
    async with connect(target) as cluster:
        dataset = (await cluster.dataset(name)).key if name else ""
        with _bar() as seen:
            asked = await ask_nodes(cluster, dataset, seconds, seen)
    if output == "json":
        print_json([one.wire() for one in asked])
    elif asked:
        _print(asked, about_one=bool(dataset))
    if not any(one.answer is not None for one in asked):
        why = asked[0].trouble if asked else "no NodeCache and no sidecar is there"
        raise CliError(f"No node answered: {why}.", UNREACHABLE)


def _print(asked: list[AskedNode], *, about_one: bool) -> None:
    shown = asked
    if about_one:  # a node that has nothing of it is no news, where others do
        shown = [one for one in asked if one.answer is None or one.answer.datasets] or asked
    columns = DATASET_COLUMNS if about_one else NODE_COLUMNS
    lines = (one.dataset_row() if about_one else one.row() for one in shown)
    console().print(table(columns, lines))
    answered = sum(one.answer is not None for one in asked)
    left = f"; {len(asked) - len(shown)} do not have it" if len(shown) < len(asked) else ""
    click.echo(f"{answered} of {len(asked)} nodes answered{left}.", err=True)


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """Show how many nodes have answered, on standard error where that is a terminal."""
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("asking nodes")
        yield lambda done, of: progress.update(task, completed=done, total=of)

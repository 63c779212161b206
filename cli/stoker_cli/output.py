"""Where the commands write: tables and JSON on standard output, refusals on standard error."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console

from stoker_cli.errors import CliError

# Width of what goes to a pipe: wide enough that no table row is folded, since scripts and CI logs do not scroll
# sideways.
PIPE_WIDTH = 200
OUTPUT = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)


def console() -> Console:
    """Open standard output, as wide as it is, or PIPE_WIDTH when nobody looks.

    Nothing that is shown is taken for rich's markup: names of objects and patterns of paths have brackets.
    """
    return Console(markup=False) if sys.stdout.isatty() else Console(markup=False, width=PIPE_WIDTH)


def print_json(value: object) -> None:
    """Print indented JSON on standard output."""
    click.echo(json.dumps(value, indent=2))


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what a command refuses into a sentence on standard error and an exit code."""
    try:
        yield
    except CliError as error:
        click.echo(f"stoker: {error}", err=True)
        sys.exit(error.exit_code)
    except UnicodeEncodeError as error:  # a name with bytes that are no characters, on its way to the cluster
        click.echo(f"stoker: {error.object!r:.200} is no UTF-8, and no name in a cluster is so.", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)  # 128 + SIGINT, as shells expect

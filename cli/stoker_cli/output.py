"""Output of the commands: tables and JSON on standard output, errors on standard error."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import yaml
from rich.console import Console

from stoker_cli.errors import CliError

F = TypeVar("F", bound=Callable[..., Any])


def printable(text: str) -> str:
    """Return a line without control characters and other signs that a terminal may interpret."""
    return "".join(mark if mark.isprintable() else "?" for mark in text)


def plain(text: str) -> str:
    """Return text of one or more lines, each made printable."""
    return "\n".join(map(printable, text.splitlines()))


# Columns for output to a pipe, enough that no table row is folded.
PIPE_WIDTH = 200
_YAML = f"{__name__}.yaml"  # key in the context of a command


def _chosen(context: click.Context, _: click.Parameter, value: str) -> str:
    """Return ``json`` for ``yaml`` too: both print the same values, and ``print_json`` chooses the form."""
    context.meta[_YAML] = value == "yaml"
    return "json" if value == "yaml" else value


def _chosen_narrow(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return ``table`` for ``wide``, since a table without more columns is as wide as it gets."""
    return "table" if value == "wide" else _chosen(context, parameter, value)


def _output(choose: Callable[[click.Context, click.Parameter, str], str]) -> Callable[[F], F]:
    forms = click.Choice(("table", "wide", "json", "yaml"))
    return click.option("-o", "--output", type=forms, default="table", show_default=True, callback=choose)


OUTPUT, WIDE_OUTPUT = _output(_chosen_narrow), _output(_chosen)


def console() -> Console:
    """Open standard output with the width of the terminal, or PIPE_WIDTH for a pipe.

    Markup of rich is off, because object names and path patterns contain brackets.
    """
    return Console(markup=False) if sys.stdout.isatty() else Console(markup=False, width=PIPE_WIDTH)


def print_json(value: object) -> None:
    """Print indented JSON on standard output, or YAML if the user chose that."""
    text, context = json.dumps(value, indent=2), click.get_current_context(silent=True)
    if context is not None and context.meta.get(_YAML):
        text = yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True).removesuffix("\n")
    click.echo(text)


@contextmanager
def refusals() -> Iterator[None]:
    """Print errors on standard error and exit with their exit codes."""
    try:
        yield
    except CliError as error:
        click.echo(f"stoker: {error}", err=True)
        sys.exit(error.exit_code)
    except UnicodeEncodeError as error:  # a name with bytes that are not UTF-8
        click.echo(f"stoker: {error.object!r:.200} is not UTF-8. Kubernetes names are UTF-8.", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)  # 128 + SIGINT, as shells expect

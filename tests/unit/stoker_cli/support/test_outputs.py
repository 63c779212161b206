"""The forms of output: YAML has the values of JSON, and wide tables have more columns."""

import json
from typing import Any

import click
import click.testing
import pytest
import yaml
from rich.console import Console

from stoker_api.datasets.dataset import Dataset
from stoker_cli import render
from stoker_cli.output import OUTPUT, WIDE_OUTPUT, print_json
from tests.unit.stoker_cli.builders import condition, node_cache

VALUE = {"b": [1, "Off", None], "a": {"text": "ü: x"}}


@click.command()
@WIDE_OUTPUT
def show(output: str) -> None:
    """Print a value, or the form that the user chose."""
    if output == "json":
        print_json(VALUE)
    else:
        click.echo(output)


def run(form: str) -> str:
    return click.testing.CliRunner().invoke(show, ["-o", form]).output


def test_yaml_has_the_values_of_json() -> None:
    assert yaml.safe_load(run("yaml")) == json.loads(run("json")) == VALUE


@pytest.mark.parametrize("form", ["table", "wide"])
def test_a_form_of_tables_reaches_the_command(form: str) -> None:
    assert run(form) == f"{form}\n"


def test_a_command_without_more_columns_shows_its_table_for_wide() -> None:
    @click.command()
    @OUTPUT
    def plain(output: str) -> None:
        click.echo(output)

    assert click.testing.CliRunner().invoke(plain, ["-o", "wide"]).output == "table\n"


def text(table: Any) -> str:
    console = Console(width=300, record=True, quiet=False, file=None)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_a_wide_list_of_datasets_says_why() -> None:
    failed = {"conditions": [condition("Accepted", "True", ""), condition("Listed", "False", "403 of the bucket")]}
    item = Dataset.model_validate(
        {"metadata": {"name": "a", "namespace": "n"}, "spec": {"source": {"uri": "s3://b/"}}, "status": failed}
    )
    assert ("403 of the bucket" in text(render.datasets([item])), "MESSAGE" in text(render.datasets([item]))) == (
        False,
        False,
    )
    assert "403 of the bucket" in text(render.datasets([item], wide=True))


def test_a_wide_list_of_nodes_says_what_limits_them() -> None:
    cache = node_cache("gpu-1", sidecarVersion="0.1.0", modesMessage="Linux 6.1 is too old")
    assert "Linux 6.1 is too old" in text(render.node_caches([cache], wide=True))
    assert "Linux 6.1 is too old" not in text(render.node_caches([cache]))

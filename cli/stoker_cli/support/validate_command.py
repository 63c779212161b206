"""The command `stoker validate`."""

import sys
from pathlib import Path

import click

from stoker_cli.errors import FAILED, NOT_FOUND, CliError
from stoker_cli.output import OUTPUT, print_json, printable, refusals
from stoker_cli.support.validation.documents import check_file, check_lines, check_wire
from stoker_cli.support.validation.yaml_trees import MOST_BYTES

_STANDARD_INPUT = "-"


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, allow_dash=True))
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of documents without one.")
@OUTPUT
def validate(files: tuple[Path, ...], namespace: str, output: str) -> None:
    """Check YAML or JSON documents without a cluster. - reads standard input.

    Datasets, TrainingJobs, DatasetClasses and TuningProfiles are checked completely, and pods and pod templates for
    Stoker's annotations. Unknown fields are problems. Exit codes: 0 all are valid, 1 one is not, 3 a file cannot be
    read.
    """
    with refusals():
        checks = [(str(file), check_file(_read(file), namespace)) for file in files]
    if output == "json":
        print_json([check_wire(*each) for each in checks])
    else:
        for each in checks:
            click.echo("\n".join(check_lines(*each)))
    if any(check.problems for _, found in checks for check in found):
        sys.exit(FAILED)


def _read(file: Path) -> bytes:
    try:
        if str(file) == _STANDARD_INPUT:
            return sys.stdin.buffer.read(MOST_BYTES + 1)
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CliError(f"Cannot read {printable(str(file))}: {reason}", NOT_FOUND) from error

"""Gives a build the machine's mirrors and trusted certificates, without storing them in the image."""

import ast
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster.processes import run

TRUST = re.compile(r"SSL_CERT_|_CERT_FILE$|_CA_BUNDLE$|_CA_CERTS$")
PIP_LINE = re.compile(r"(?P<scope>[^.]*(?:\.[^.=]*)*)\.(?P<key>[a-z-]+)=(?P<value>.+)")


def machine_trust(environment: Mapping[str, str]) -> dict[str, Path]:
    """Return the variables that name existing files or folders of certificates."""
    chosen = {name: Path(value) for name, value in environment.items() if TRUST.search(name) and value}
    return {name: path for name, path in chosen.items() if path.is_absolute() and path.exists()}


def pip_settings() -> dict[str, str]:
    """Return the settings of this machine's pip, from its files and its environment."""
    return parse_pip_settings(run(sys.executable, "-m", "pip", "config", "list", check=False))


def parse_pip_settings(listing: str) -> dict[str, str]:
    """Return the settings in the output of `pip config list`. The environment takes precedence, as in pip."""
    matches = [match for line in listing.splitlines() if (match := PIP_LINE.fullmatch(line))]
    matches.sort(key=lambda match: match["scope"] == ":env:")
    return {match["key"]: str(ast.literal_eval(match["value"])) for match in matches}


def stage(trust: Mapping[str, Path], pip: Mapping[str, str], folder: Path, seen_at: str) -> dict[str, str]:
    """Copy the files named by the settings into `folder`. Return the variables for a build that sees it at `seen_at`.

    pip's settings become a file, so that no address or password in them is recorded in the image's history.
    """
    variables = {name: _copied(path, folder, seen_at) for name, path in trust.items()}
    lines = [f"{key} = {_lent(value, folder, seen_at)}" for key, value in sorted(pip.items())]
    (folder / "pip.conf").write_text("\n".join(["[global]", *lines, ""]))
    return {**variables, "PIP_CONFIG_FILE": f"{seen_at}/pip.conf"}


def _lent(value: str, folder: Path, seen_at: str) -> str:
    return _copied(Path(value), folder, seen_at) if value.startswith("/") and Path(value).exists() else value


def _copied(source: Path, folder: Path, seen_at: str) -> str:
    target = folder / source.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore_dangling_symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)
    return f"{seen_at}/{source.relative_to('/')}"

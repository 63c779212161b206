"""Parses --sampling: JSON, or a file of JSON or YAML, validated as a pod's sampling."""

from pathlib import Path

import yaml

from stoker_api.jobs.sampling import Sampling, parse_sampling
from stoker_plugins.discovery import PluginKind, installed_plugins

_OPTION = "--sampling"
_MOST_BYTES = 64 * 1024


def read_sampling_option(given: str) -> str:
    """Return the sampling from JSON or a file, as JSON without defaults.

    Raises ValueError with a sentence, also for an order plug-in that is not installed.
    """
    sampling = parse_sampling(_read(given), _OPTION)
    if sampling.dataset:
        raise ValueError(
            f"{_OPTION} names the Dataset {sampling.dataset!r}: leave it out, since a mount has one source"
        )
    _check_plugin(sampling)
    return sampling.for_pod(None).text()


def _read(given: str) -> object:
    inline = given.lstrip().startswith("{")
    text = given if inline else _file(given)
    if len(text) > _MOST_BYTES:
        raise ValueError(f"{_OPTION} has {len(text)} characters or more, and {_MOST_BYTES} are allowed")
    try:
        return yaml.safe_load(text)  # JSON is YAML
    except (yaml.YAMLError, RecursionError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or "it is not YAML"
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise ValueError(f"{_OPTION}{'' if inline else f' {given}'}{where}: {problem}") from error


def _file(given: str) -> str:
    try:
        if not (path := Path(given)).is_file():  # a pipe would block
            raise ValueError(f"{_OPTION} {given!r:.200} is neither a file nor JSON such as '{{\"seed\": 42}}'")
        with path.open("rb") as file:
            return file.read(_MOST_BYTES + 1).decode()
    except OSError as error:
        raise ValueError(f"{_OPTION} {given}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{_OPTION} {given}: is not text") from error


def _check_plugin(sampling: Sampling) -> None:
    plugin = sampling.plan().plugin
    installed = {one.name for one in installed_plugins(PluginKind.ORDER) if not one.refused} if plugin else set()
    if plugin and plugin not in installed:
        there = ", ".join(sorted(installed)) or "none is"
        raise ValueError(f"{_OPTION} asks the order plug-in {plugin}, which is not installed: {there}")

"""Queries to mounts of `stoker mount` on this machine, over a socket that only their user may open."""

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.mount_places import FIGURES_SOCKET, MOUNT_SPEC, default_runs
from stoker_api.node_caches.node_answer import MOST_TOLD, MountFigures
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_api.times import format_time
from stoker_cli.errors import FAILED, NOT_FOUND, UNREACHABLE, CliError
from stoker_cli.output import printable

_SECONDS = 10.0
_MOST_SPEC = 1024 * 1024
HERE = "here"  # in place of a node name


_RUNS = f"{__name__}.runs"  # in a click context's meta


class LocalMountPath(click.ParamType["LocalMountPath"]):
    """The option --mount: the folder of a mount."""

    name = "DIR"

    def __init__(self, folder: str = "", runs: Path | None = None) -> None:
        self._folder = folder
        self._runs = runs

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "LocalMountPath":
        """Store the folder."""
        return LocalMountPath(str(value), ctx.meta.get(_RUNS) if ctx is not None else None)

    @property
    def runs(self) -> Path | None:
        """Folder of the sockets from --run-dir, or None for the default."""
        return self._runs

    def find(self) -> "LocalMount":
        """Return the mount. Raises CliError if it does not exist."""
        return LocalMount(Path(self._folder), self._runs)


def _take_runs(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    ctx.meta[_RUNS] = value


def with_mount_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options --mount and --run-dir to a command."""
    runs = click.option(
        "--run-dir",
        type=click.Path(path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_take_runs,
        help="With --mount: the --run-dir of that mount.",
    )
    text = "Folder of a `stoker mount` on this machine; used instead of a cluster."
    return click.option("--mount", type=LocalMountPath(), help=text)(runs(command))


class LocalMount:
    """A mount of this user in a folder. Raises CliError if it does not exist.

    ``runs``: folder of the sockets, or None for the default of this user.
    """

    def __init__(self, folder: Path, runs: Path | None = None) -> None:
        self.folder = folder.absolute()
        self._socket = _find(self.folder, runs or default_runs(os.environ, os.geteuid())) / FIGURES_SOCKET

    def figures(self) -> MountFigures:
        """Return the current readers. Blocks for some milliseconds. Raises CliError."""
        try:
            return MountFigures.model_validate(self._ask({"show": "workloads"}))
        except ValidationError as error:
            raise self._other_version() from error

    def history(self, kind: str | None, limit: int) -> list[dict[str, Any]]:
        """Return the last changes, phases and predictions, newest first. Raises CliError."""
        rows = self._ask({"show": "history", "kind": kind or "", "limit": limit}).get("history")
        if not isinstance(rows, list):
            raise self._other_version()
        return [dict(row) for row in rows]

    async def workload_caches(self, namespace: str) -> list[NodeCache]:
        """Return the mount in the form of a cluster with one node. The namespace is ignored."""
        return [self.node_cache(self.figures())]

    def node_cache(self, figures: MountFigures) -> NodeCache:
        """Return the mount in the form of a node with one workload, named after the folder.

        Raises CliError if reads are not observed.
        """
        if figures.unseen:
            raise CliError(f"Reads of {self._name} are not observed: {figures.unseen}", FAILED)
        now = format_time(time.time(), "milliseconds")
        rows = tuple(row.model_copy(update={"pod": str(self.folder), "figures_at": now}) for row in figures.workloads)
        status = NodeCacheStatus(workloads=rows, hardware=figures.hardware)
        return NodeCache(metadata=ObjectMeta(name=HERE), status=status)

    @property
    def _name(self) -> str:
        return printable(str(self.folder))

    def _other_version(self) -> CliError:
        return CliError(f"The mount at {self._name} is from another version of Stoker. Unmount it and mount it again.")

    def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_SECONDS)
                connection.connect(str(self._socket))
                connection.sendall(json.dumps(question).encode() + b"\n")
                with connection.makefile("rb") as file:
                    answer = json.loads(file.readline(MOST_TOLD + 1))
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise CliError(f"The mount at {self._name} does not answer ({printable(why)}).", UNREACHABLE) from error
        if not isinstance(answer, dict) or "error" in answer:
            raise self._other_version()
        return answer


def _find(folder: Path, runs: Path) -> Path:
    """Return the folder with the sockets of a mount. Raises CliError."""
    for note in sorted(runs.glob(f"*/{MOUNT_SPEC}")):
        try:
            with note.open("rb") as file:
                mounted = json.loads(file.read(_MOST_SPEC))["folder"]
        except (OSError, ValueError, KeyError, TypeError):  # a mount that starts or ends
            continue
        if mounted in (str(folder), os.path.realpath(folder)):
            return note.parent
    raise CliError(
        f"No stoker mount of this user at {printable(str(folder))}. Searched {printable(str(runs))} (--run-dir).",
        NOT_FOUND,
    )

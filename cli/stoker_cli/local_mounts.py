"""The mounts of `stoker mount` on this machine, as the CLI asks them: over a socket that their user alone may open."""

import json
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from stoker_api.meta import ObjectMeta
from stoker_api.mount_figures import MOST_TOLD, MountFigures
from stoker_api.mount_places import FIGURES_SOCKET, MOUNT_SPEC, default_runs
from stoker_api.nodecache import NodeCache, NodeCacheStatus
from stoker_cli.errors import FAILED, NOT_FOUND, UNREACHABLE, CliError
from stoker_cli.tuning_rows import printable

_SECONDS = 10.0
_MOST_SPEC = 1024 * 1024
HERE = "here"  # what stands where a node's name stands


_RUNS = f"{__name__}.runs"  # in a click context's meta


class LocalMountPath(click.ParamType["LocalMountPath"]):
    """The folder of a mount on the command line; ``find`` it when it is asked."""

    name = "DIR"

    def __init__(self, folder: str = "", runs: Path | None = None) -> None:
        self._folder = folder
        self._runs = runs

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "LocalMountPath":
        """Take the folder."""
        return LocalMountPath(str(value), ctx.meta.get(_RUNS) if ctx is not None else None)

    @property
    def runs(self) -> Path | None:
        """Folder of the mounts' sockets, as --run-dir says; None: where they are by default."""
        return self._runs

    def find(self) -> "LocalMount":
        """Return the mount. Raises CliError."""
        return LocalMount(Path(self._folder), self._runs)


def _take_runs(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    ctx.meta[_RUNS] = value


def of_a_mount(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options --mount, its argument ``mount``, and --run-dir."""
    runs = click.option(
        "--run-dir",
        type=click.Path(path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_take_runs,
        help="With --mount: that of its stoker mount.",
    )
    text = "A folder of stoker mount on this machine, in place of the cluster."
    return click.option("--mount", type=LocalMountPath(), help=text)(runs(command))


class LocalMount:
    """One mount, by the folder where it is. Raises CliError where none of this user's is there.

    ``runs``: folder of the mounts' sockets; None: where `stoker mount` keeps them for this user.
    """

    def __init__(self, folder: Path, runs: Path | None = None) -> None:
        self.folder = folder.absolute()
        self._socket = _find(self.folder, runs or default_runs(os.environ, os.geteuid())) / FIGURES_SOCKET

    def figures(self) -> MountFigures:
        """Return who reads it now. Blocks for some milliseconds. Raises CliError."""
        try:
            return MountFigures.model_validate(self._ask({"show": "workloads"}))
        except ValidationError as error:
            raise CliError(f"The mount at {self._name} is of another version of Stoker: mount it anew.") from error

    def history(self, kind: str | None, limit: int) -> list[dict[str, Any]]:
        """Return the last changes, phases and predictions, the newest first. Raises CliError."""
        rows = self._ask({"show": "history", "kind": kind or "", "limit": limit}).get("history")
        if not isinstance(rows, list):
            raise CliError(f"The mount at {self._name} is of another version of Stoker: mount it anew.")
        return [dict(row) for row in rows]

    async def node_caches(self) -> list[NodeCache]:
        """Return the mount as the only node of a cluster: a WorkloadSource."""
        return [self.node_cache(self.figures())]

    def node_cache(self, figures: MountFigures) -> NodeCache:
        """Return the mount as a node, whose only workload is named after the folder. Raises CliError where it is blind.

        A mount at which nobody looks is an error, and one that nobody reads is not.
        """
        if figures.unseen:
            raise CliError(f"Reads of {self._name} are not seen: {figures.unseen}", FAILED)
        rows = tuple(row.model_copy(update={"pod": str(self.folder)}) for row in figures.workloads)
        status = NodeCacheStatus(workloads=rows, hardware=figures.hardware)
        return NodeCache(metadata=ObjectMeta(name=HERE), status=status)

    @property
    def _name(self) -> str:
        return printable(str(self.folder))

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
            raise CliError(f"The mount at {self._name} does not understand: is it of this version of Stoker?")
        return answer


def _find(folder: Path, runs: Path) -> Path:
    """Return the folder of a mount's sockets. Raises CliError."""
    for note in sorted(runs.glob(f"*/{MOUNT_SPEC}")):
        try:
            with note.open("rb") as file:
                there = json.loads(file.read(_MOST_SPEC))["folder"]
        except (OSError, ValueError, KeyError, TypeError):  # just being written, or just being removed
            continue
        if there in (str(folder), os.path.realpath(folder)):
            return note.parent
    raise CliError(
        f"No stoker mount of yours is at {printable(str(folder))} (looked in {printable(str(runs))}).", NOT_FOUND
    )

"""The command `stoker umount`, from its words to the last process. Imports no models, which take longer (ADR 131)."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker_api.mount_places import default_runs
from stoker_sidecar.errors import MountRefused
from stoker_sidecar.local.mounted import all_mounted
from stoker_sidecar.local.preflight import check_unused, real_folder

COMMAND = "umount"


@dataclass(frozen=True)
class UmountOptions:
    """What `stoker umount` is asked for. ``force``: also under programs that have files open there."""

    folder: Path
    runs: Path
    force: bool


def parse_umount(words: Sequence[str], environment: Mapping[str, str], uid: int) -> UmountOptions:
    """Parse what stands behind `stoker umount`. Exits with code 2 and a sentence where it is wrong."""
    parser = argparse.ArgumentParser(prog=f"stoker {COMMAND}", description="Ends a mount of `stoker mount`.")
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument(
        "--force", action="store_true", help="also while programs have files open there, whose reads fail then"
    )
    add_runs(parser, environment, uid)
    options = parser.parse_args(words)
    return UmountOptions(options.folder, options.run_dir, options.force)


def add_runs(parser: argparse.ArgumentParser, environment: Mapping[str, str], uid: int) -> None:
    """Let a command be told in which folder the mounts are."""
    runs = default_runs(environment, uid)
    parser.add_argument("--run-dir", type=Path, default=runs, help="folder of the sockets (%(default)s)")


def umount(options: UmountOptions) -> None:
    """Unmount, and return when nothing of ours is mounted there and no process is left.

    Raises MountRefused and MountError.
    """
    folder = real_folder(options.folder)
    for one in all_mounted(options.runs):
        if one.folder == folder:
            if not options.force and one.pid() is not None:  # a dead mount serves no one
                check_unused(folder)
            return one.end()
    raise MountRefused(f"{folder} is not mounted by a stoker mount of this user")

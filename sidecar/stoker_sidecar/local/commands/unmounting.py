"""The command `stoker umount`, from its arguments to the last process.

It imports no models, which are slow (ADR 34).
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.errors import MountRefused
from stoker_sidecar.local.mounts.mount_paths import add_runs
from stoker_sidecar.local.mounts.mounted import all_mounted
from stoker_sidecar.local.mounts.preflight import check_unused, real_folder

COMMAND = "umount"


@dataclass(frozen=True)
class UmountOptions:
    """The options of `stoker umount`. ``force`` unmounts even if programs have open files there."""

    folder: Path
    runs: Path
    force: bool


def parse_umount(words: Sequence[str], environment: Mapping[str, str], uid: int) -> UmountOptions:
    """Parse the arguments of `stoker umount`. Exit with code 2 and a sentence on an error."""
    parser = argparse.ArgumentParser(prog=f"stoker {COMMAND}", description="Ends a mount of `stoker mount`.")
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument(
        "--force", action="store_true", help="also while programs have files open there, whose reads fail then"
    )
    add_runs(parser, environment, uid)
    options = parser.parse_args(words)
    return UmountOptions(options.folder, options.run_dir, options.force)


def umount(options: UmountOptions) -> None:
    """Unmount, and return when no Stoker mount is there and no process is left.

    Raises MountRefused and MountError.
    """
    folder = real_folder(options.folder)
    for one in all_mounted(options.runs):
        if one.folder == folder:
            if not options.force and (keeper := one.pid()) is not None:  # a dead mount serves no reader
                check_unused(folder, one.shown(), keeper)
            return one.end()
    raise MountRefused(f"{folder} is not mounted by a stoker mount of this user")

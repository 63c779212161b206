"""Parses the command line of `stoker mount` and `stoker cache drop` into validated types."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from stoker_api.datasets.dataset_source import DatasetSource, Source
from stoker_api.datasets.warm_paths import (
    is_text,
)
from stoker_sidecar.errors import InvalidSource
from stoker_sidecar.local.mounts.mount_paths import add_runs
from stoker_sidecar.local.options.mount_flags import add_mount_flags
from stoker_sidecar.local.options.option_values import plugins_of, sampling_of, tuning_of, warm_paths_of
from stoker_sidecar.local.reports.report import for_workstation
from stoker_sidecar.store.core.location import parse_location
from stoker_sidecar.version.objects import selector

_EPILOG = """\
Without --foreground, the command returns when DIR is mounted (with --warm: when all files are on this disk). The mount
stays until `stoker umount DIR`; Ctrl-C before the command returns unmounts. PATHs of --warm and --list are folders,
files or patterns (* stops at '/', ** does not) below URL. They are fetched in this order, all other files when they
are read. Fetched files stay in the cache folder.

Credentials come from where AWS programs look: the environment, ~/.aws, SSO, the machine's role; without any, requests
are not signed. Exit codes: 0 mounted, 1 not mounted (a sentence says why), 2 wrong usage, 3 with --strict: mounted,
without the files that cannot be read (the last line counts them).
"""


@dataclass(frozen=True)
class MountOptions:
    """The options of `stoker mount`.

    Quota and memory in bytes, bandwidth in bytes a second. ``tuning``: a file of rules that
    could be read, absolute. ``version``: digest, or its beginning; empty: what the source has now. ``warm_paths``:
    what ``warm`` fetches, in this order; empty: everything. ``plugins``: names of framework plug-ins that are
    installed. ``sampling``: the order that it is read in, checked, as JSON; empty: not known.
    """

    source: Source
    folder: Path
    cache: Path
    runs: Path
    quota_bytes: int | None
    bytes_per_second: int | None
    version: str
    refresh: bool
    warm: bool
    warm_paths: tuple[str, ...]
    strict: bool
    foreground: bool
    json: bool
    profile: str
    sign: bool
    allow_other: bool
    tuning: Path | None
    tuned: bool
    plugins: tuple[str, ...]
    observe: bool
    sampling: str
    memory_names: bool
    memory_bytes: int | None
    pages: bool
    cpus: str
    last_files: bool
    scratch_bytes: int


@dataclass(frozen=True)
class DropOptions:
    """The options of `stoker cache drop`. ``folder`` is the mount's; ``system`` means the whole machine instead."""

    folder: Path | None
    runs: Path
    pages: bool
    names: bool
    system: bool


def parse(argv: Sequence[str], environment: Mapping[str, str], uid: int) -> MountOptions | DropOptions:
    """Parse the command line. Exit with code 2 and a sentence on an error."""
    parser = argparse.ArgumentParser(prog="stoker")
    commands = parser.add_subparsers(required=True)
    mount = commands.add_parser(
        "mount",
        help="mount a bucket as a folder",
        description="Mounts a prefix of a bucket as a folder of read-only files, with a cache on this disk.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="stoker mount URL DIR [--warm [PATH ...] [--list FILE]] [OPTION ...]",
    )
    add_mount_flags(mount, environment, uid)
    mount.set_defaults(make=_mount_options)
    drop = _add_drop(commands)
    for command in (mount, drop):
        command.set_defaults(parser=command)
        add_runs(command, environment, uid)
    options, paths = parser.parse_known_args(argv)
    _check_words(
        options.parser, argv, paths, may_have_paths=options.parser is mount, warm=getattr(options, "warm", False)
    )
    options.warm_paths = paths
    try:
        made: MountOptions | DropOptions = options.make(options)
    except (InvalidSource, ValueError) as error:
        options.parser.error(_sentence(error))
    if getattr(options, "tuning_window", None) is not None:
        print("stoker mount: --tuning-window has no effect: remove it", file=sys.stderr)
    return made


def _check_words(
    parser: argparse.ArgumentParser, argv: Sequence[str], paths: Sequence[str], *, may_have_paths: bool, warm: bool
) -> None:
    """Exit with a sentence if an argument is not text, or is unknown."""
    if no_text := next((word for word in argv if not is_text(word)), None):
        parser.error(f"{no_text!r} is not UTF-8: rename it, or name its folder")
    if unknown := [path for path in paths if path.startswith("-") or not may_have_paths]:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if paths and not warm:
        parser.error(f"{' '.join(paths)} is behind URL and DIR: paths are for --warm, so give it as well")


def _add_drop(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    cache = commands.add_parser("cache", help="kernel caches of a mount").add_subparsers(required=True)
    drop = cache.add_parser(
        "drop",
        help="drop the kernel's caches of a mount",
        description="Drops the kernel's caches of a stoker mount, for benchmarks. Fetched files stay on the disk. "
        "Works on mounts of this machine, not on mounts of pods.",
    )
    drop.add_argument("--pages", action="store_true", help="drop file contents")
    drop.add_argument(
        "--names", action="store_true", help="drop names and attributes (root only; not for native mounts)"
    )
    where = drop.add_mutually_exclusive_group(required=True)
    where.add_argument("--mount", metavar="DIR", type=Path, dest="folder", help="the stoker mount to drop")
    where.add_argument(
        "--system", action="store_true", help="drop caches of all file systems of this machine (root only)"
    )
    drop.set_defaults(make=_drop_options)
    return drop


def _drop_options(options: argparse.Namespace) -> DropOptions:
    if not (options.pages or options.names):
        raise ValueError("say what to drop: --pages, --names, or both")
    return DropOptions(options.folder, options.run_dir, options.pages, options.names, options.system)


def _mount_options(options: argparse.Namespace) -> MountOptions:
    parse_location(options.url)
    if "," in str(options.cache):
        raise ValueError(f"--cache {str(options.cache)!r} has a comma, by which the processes tell cache folders apart")
    if options.pages and not options.warm:
        raise ValueError("--pages says what --warm is to bring into memory: give --warm as well")
    if options.listed is not None and not options.warm:
        raise ValueError("--list names what --warm is to fetch: give --warm as well")
    selector(tuple(options.include), tuple(options.exclude))
    plugins = plugins_of(options.plugins)
    return MountOptions(
        source=DatasetSource(
            uri=options.url,
            endpoint=options.endpoint or None,
            region=options.region,
            include=tuple(options.include),
            exclude=tuple(options.exclude),
        ).plain(),
        folder=options.folder,
        cache=options.cache.absolute(),
        runs=options.run_dir.absolute(),
        quota_bytes=options.quota,
        bytes_per_second=options.bandwidth_limit,
        version=options.version,
        refresh=not options.no_refresh,
        warm=options.warm,
        warm_paths=warm_paths_of(options.warm_paths, options.listed),
        strict=options.strict,
        foreground=options.foreground,
        json=options.output == "json",
        profile=options.profile,
        sign=not options.no_sign_request,
        allow_other=options.allow_other,
        tuning=tuning_of(options.tuning, plugins),
        tuned=not options.no_tuning,
        plugins=plugins,
        observe=options.observe or bool(options.sampling),
        sampling=sampling_of(options.sampling),
        memory_names=options.memory_names,
        memory_bytes=options.memory_bytes or None,
        pages=options.pages,
        cpus=options.cpus,
        last_files=not options.no_last_files,
        scratch_bytes=options.scratch,
    )


def environment_of(options: MountOptions, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the mount's processes: without Stoker's variables, with the chosen credentials.

    Pure.
    """
    clean = {name: value for name, value in environment.items() if not name.startswith("STOKER_")}
    if options.profile:
        clean["AWS_PROFILE"] = options.profile
    if not options.sign:
        clean = {name: value for name, value in clean.items() if not name.startswith("AWS_")}
        clean |= {"AWS_EC2_METADATA_DISABLED": "true"}
        clean |= dict.fromkeys(("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"), "/dev/null")
    return clean


def _sentence(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        field = str(first["loc"][0])  # of Source; the options have the same names
        return f"--{field} {first['input']!r} is not valid: {DatasetSource.model_fields[field].description}"
    return for_workstation(str(error)) if isinstance(error, InvalidSource) else str(error)

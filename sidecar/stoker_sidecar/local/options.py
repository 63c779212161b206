"""The command line of `stoker mount` and `stoker cache drop`, parsed into types that cannot be wrong later."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from stoker_api.dataset_source import DatasetSource, Source
from stoker_api.meta import parse_quantity
from stoker_api.warm_paths import is_text
from stoker_sidecar.errors import InvalidSource
from stoker_sidecar.linux.cpu_sets import format_cpus, parse_cpus, usable_cpus
from stoker_sidecar.local.mount_paths import default_cache
from stoker_sidecar.local.mount_spec import LEAST_WINDOW, MOST_WINDOW, WINDOW_SECONDS
from stoker_sidecar.local.report import for_workstation
from stoker_sidecar.local.said_paths import warm_paths_of
from stoker_sidecar.local.unmounting import add_runs
from stoker_sidecar.store.core.location import parse_location
from stoker_sidecar.version.objects import selector

_EPILOG = """\
Without --foreground the command returns when DIR is mounted (with --warm: when everything is on this disk), and the
mount stays until `stoker umount DIR`. PATHs of --warm, and of its --list, are folders, files or patterns
(* stops at '/', ** does not) below URL, fetched in this order; all else is fetched when it is read. Ctrl-C before that
unmounts. What was fetched stays in the cache folder.

Credentials come from where AWS programs look: the environment, ~/.aws, SSO, the machine's role; without any, requests
are not signed. Exit codes: 0 good, 1 it cannot be mounted (a sentence says why, and nothing is), 2 wrong usage.
"""


@dataclass(frozen=True)
class MountOptions:
    """What `stoker mount` is asked for.

    Quota and memory in bytes, bandwidth in bytes a second; the window in seconds. ``tuning``: a file of rules that
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
    foreground: bool
    json: bool
    profile: str
    sign: bool
    allow_other: bool
    tuning: Path | None
    tuned: bool
    tuning_window: float
    plugins: tuple[str, ...]
    observe: bool
    sampling: str
    memory_names: bool
    memory_bytes: int | None
    pages: bool
    cpus: str
    last_files: bool


@dataclass(frozen=True)
class DropOptions:
    """What `stoker cache drop` is asked for. ``folder``: of the mount; ``system``: of the whole machine instead."""

    folder: Path | None
    runs: Path
    pages: bool
    names: bool
    system: bool


def parse(argv: Sequence[str], environment: Mapping[str, str], uid: int) -> MountOptions | DropOptions:
    """Parse the command line. Exits with code 2 and a sentence on a wrong one."""
    parser = argparse.ArgumentParser(prog="stoker")
    commands = parser.add_subparsers(required=True)
    mount = commands.add_parser(
        "mount",
        help="show a bucket as a folder",
        description="Shows what is below a prefix of a bucket as a folder of read-only files, fetched once and kept.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="stoker mount URL DIR [--warm [PATH ...] [--list FILE]] [OPTION ...]",
    )
    _add_mount(mount, environment, uid)
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
    return made


def _check_words(
    parser: argparse.ArgumentParser, argv: Sequence[str], paths: Sequence[str], *, may_have_paths: bool, warm: bool
) -> None:
    """Exit with a sentence where a word is no text, or means nothing."""
    if no_text := next((word for word in argv if not is_text(word)), None):
        parser.error(f"{no_text!r} is no UTF-8: rename it, or name the folder that it is in")
    if unknown := [path for path in paths if path.startswith("-") or not may_have_paths]:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if paths and not warm:
        parser.error(f"{' '.join(paths)} is behind URL and DIR: paths are for --warm, so give it as well")


def _add_drop(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    cache = commands.add_parser("cache", help="what the kernel keeps in memory of a mount").add_subparsers(
        required=True
    )
    drop = cache.add_parser(
        "drop",
        help="make a mount cold in memory",
        description="Has the kernel forget what it keeps in memory of a stoker mount, for benchmarks. What was fetched "
        "stays on the disk. Mounts of this machine only: pods' mounts are their node's.",
    )
    drop.add_argument("--pages", action="store_true", help="contents of files")
    drop.add_argument("--names", action="store_true", help="names and attributes (root; not of a native mount)")
    where = drop.add_mutually_exclusive_group(required=True)
    where.add_argument("--mount", metavar="DIR", type=Path, dest="folder", help="of this stoker mount")
    where.add_argument(
        "--system", action="store_true", help="of all file systems of this machine, other programs' too (root)"
    )
    drop.set_defaults(make=_drop_options)
    return drop


def _drop_options(options: argparse.Namespace) -> DropOptions:
    if not (options.pages or options.names):
        raise ValueError("say what to drop: --pages, --names, or both")
    return DropOptions(options.folder, options.run_dir, options.pages, options.names, options.system)


def _add_mount(parser: argparse.ArgumentParser, environment: Mapping[str, str], uid: int) -> None:
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
    add = parser.add_argument
    add("url", metavar="URL", help="s3://bucket/prefix, or file:///folder of a slow disk such as NFS")
    add("folder", metavar="DIR", type=Path, help="an empty folder")
    add(
        "--warm",
        action="store_true",
        help="fetch everything, or each PATH behind URL and DIR; return when it is on this disk",
    )
    add(
        "--list",
        metavar="FILE",
        dest="listed",
        help="with --warm: paths in UTF-8, one a line, behind those of the command line; - reads standard input, # "
        "begins a comment",
    )
    add("-f", "--foreground", action="store_true", help="stay; Ctrl-C unmounts")
    add("--endpoint", default=endpoint, help="URL of an S3-compatible server [AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL]")
    add("--region", default=region, help="of the bucket [AWS_REGION, AWS_DEFAULT_REGION] (%(default)s)")
    add("--profile", default="", help="profile of ~/.aws/config [AWS_PROFILE]")
    add("--no-sign-request", action="store_true", help="ask anonymously, whatever credentials there are")
    add("--include", action="append", default=[], metavar="PATTERN", help="only paths like train/**; may be repeated")
    add("--exclude", action="append", default=[], metavar="PATTERN", help="not these; wins over --include")
    add(
        "--cache", type=Path, default=default_cache(environment, uid), help="where fetched files are kept (%(default)s)"
    )
    add("--quota", type=_bytes, metavar="BYTES", help="keep at most this much, such as 200Gi; the rest is read through")
    add("--pages", action="store_true", help="with --warm: bring it into memory too, as far as there is room")
    add(
        "--cpus",
        type=_cpus,
        default="Auto",
        metavar="LIST",
        help="CPUs of what fetches, such as 0-3,8; All; Auto: near the disk of --cache (%(default)s)",
    )
    add("--memory-bytes", type=_bytes, metavar="BYTES", help="keep so much of it in memory while it is mounted")
    add("--memory-names", action="store_true", help="keep names and attributes of its files in memory as well")
    add("--bandwidth-limit", type=_bytes, metavar="BYTES", help="bytes a second for --warm, such as 50Mi")
    add("--no-last-files", action="store_true", help="fetch only what is read, also where little is missing")
    add("--no-refresh", action="store_true", help="do not list the source again when there is a list in the cache")
    add("--version", default="", metavar="DIGEST", help="mount this version, which must be in the cache")
    add(
        "--allow-other",
        action="store_true",
        help="for all users, as root's mounts are; see user_allow_other in /etc/fuse.conf",
    )
    _add_tuning(parser)
    add("-o", "--output", choices=("text", "json"), default="text", help="json: a JSON object a line, for scripts")
    parser.set_defaults(make=_mount_options)


def _add_tuning(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    tuning = parser.add_mutually_exclusive_group()
    tuning.add_argument(
        "--tuning", type=Path, metavar="FILE", help="rules for what is fetched when; read anew when FILE changes"
    )
    tuning.add_argument("--no-tuning", action="store_true", help="no rules, not even the built-in ones")
    add(
        "--tuning-window",
        type=_window,
        default=WINDOW_SECONDS,
        metavar="SECONDS",
        help="by which numbers are judged that the strategy Adaptive of --tuning finds (%(default)s)",
    )
    add(
        "--plugins",
        action="append",
        default=[],
        metavar="NAME",
        help="ask this installed framework plug-in (stoker tuning plugins) for the framework of the files, and for "
        "rules; may be repeated",
    )
    add(
        "--observe",
        action="store_true",
        help="look at what programs read: stoker top --mount DIR shows it, and rules may ask for it",
    )
    add(
        "--sampling",
        default="",
        metavar="FILE|JSON",
        help="the order of what reads the mount, as spec.sampling of a TrainingJob (docs/ORDERS.md), such as "
        """'{"sampler": "torch-distributed", "seed": 42}': what comes next is fetched, or read into memory, before """
        "it is asked for; looks at what programs read, as --observe",
    )


def _mount_options(options: argparse.Namespace) -> MountOptions:
    parse_location(options.url)
    if "," in str(options.cache):
        raise ValueError(f"--cache {str(options.cache)!r} has a comma, by which the processes tell cache folders apart")
    if options.pages and not options.warm:
        raise ValueError("--pages says what --warm is to bring into memory: give --warm as well")
    if options.listed is not None and not options.warm:
        raise ValueError("--list names what --warm is to fetch: give --warm as well")
    selector(tuple(options.include), tuple(options.exclude))
    plugins = _plugins(options.plugins)
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
        foreground=options.foreground,
        json=options.output == "json",
        profile=options.profile,
        sign=not options.no_sign_request,
        allow_other=options.allow_other,
        tuning=_tuning(options.tuning, plugins),
        tuned=not options.no_tuning,
        tuning_window=options.tuning_window,
        plugins=plugins,
        observe=options.observe or bool(options.sampling),
        sampling=_sampling(options.sampling),
        memory_names=options.memory_names,
        memory_bytes=options.memory_bytes or None,
        pages=options.pages,
        cpus=options.cpus,
        last_files=not options.no_last_files,
    )


def _window(text: str) -> float:
    seconds = float(text) if text.replace(".", "", 1).isdecimal() else 0.0
    if not LEAST_WINDOW <= seconds <= MOST_WINDOW:
        between = f"between {LEAST_WINDOW:g} and {MOST_WINDOW:g}"
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds {between}")
    return seconds


def _cpus(text: str) -> str:
    if text in ("Auto", "All"):
        return text
    try:
        missing = parse_cpus(text) - usable_cpus()
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if missing:
        there = format_cpus(usable_cpus())
        raise argparse.ArgumentTypeError(f"CPUs {format_cpus(missing)} cannot be used here: there are {there}")
    return text


def _plugins(given: Sequence[str]) -> tuple[str, ...]:
    """Return the names of plug-ins, all of which are installed. Raises ValueError."""
    if not given:
        return ()
    from stoker_plugins.discovery import installed_plugins
    from stoker_tuning.frameworks.answers import parse_names

    names = parse_names(",".join(given))
    known = {one.name for one in installed_plugins() if not one.refused}
    for name in names:
        if name not in known:
            raise ValueError(f"--plugins {name}: is not installed; there are {', '.join(sorted(known))}")
    return names


def _tuning(path: Path | None, plugins: tuple[str, ...]) -> Path | None:
    """Return the file, once it was read. Raises ValueError."""
    if path is None:
        return None
    # Late: rules, their documents and YAML are a third of this command's imports, and most mounts have no such file.
    from stoker_sidecar.local.tuning_file import documents_of, read_tuning_file

    read_tuning_file(path, documents_of(plugins))
    return path.absolute()


def _sampling(given: str) -> str:
    """Return the order that is said, checked. Raises ValueError."""
    if not given:
        return ""
    # Late: orders, and YAML, are for mounts that have one.
    from stoker_sidecar.local.said_sampling import read_sampling_option

    return read_sampling_option(given)


def environment_of(options: MountOptions, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the mount's processes see: nothing of Stoker's own variables, and the credentials that were chosen.

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


def _bytes(text: str) -> int:
    try:
        return parse_quantity(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _sentence(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        field = str(first["loc"][0])  # of Source; the options have its fields' names
        return f"--{field} {first['input']!r} is not valid: {DatasetSource.model_fields[field].description}"
    return for_workstation(str(error)) if isinstance(error, InvalidSource) else str(error)

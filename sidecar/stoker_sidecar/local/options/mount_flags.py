"""The arguments of `stoker mount`, as a table."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stoker_api.jobs.scratch import parse_scratch
from stoker_api.meta import parse_quantity
from stoker_sidecar.linux.cpu_sets import format_cpus, parse_cpus, usable_cpus
from stoker_sidecar.local.mounts.mount_paths import default_cache


class MountFlag(NamedTuple):
    """One argument of the command line: its names, its help, and what argparse does with it."""

    names: tuple[str, ...]
    help: str
    how: Mapping[str, Any]


def _flag(*names: str, text: str, **how: Any) -> MountFlag:
    return MountFlag(names, text, how)


def _switch(*names: str, text: str) -> MountFlag:
    return _flag(*names, text=text, action="store_true")


def _patterns(name: str, text: str) -> MountFlag:
    return _flag(name, text=text, action="append", default=[], metavar="PATTERN")


def _quantity(text: str) -> int:
    try:
        return parse_quantity(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _scratch(text: str) -> int:
    try:
        return parse_scratch(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


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


def _size(name: str, text: str) -> MountFlag:
    return _flag(name, text=text, type=_quantity, metavar="BYTES")


_LIST = "with --warm: read more paths from FILE (UTF-8, one per line, # starts a comment); - reads standard input"
_ENDPOINT = "URL of an S3-compatible server [AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL]"
_REGION = "region of the bucket [AWS_REGION, AWS_DEFAULT_REGION] (%(default)s)"
_QUOTA = "maximum size of the cache, such as 200Gi; other files are read from the source"
_CPUS = "CPUs for fetching, such as 0-3,8; All; Auto: near the disk of --cache (%(default)s)"
_ALLOW_OTHER = "allow access by all users, as mounts of root do; see user_allow_other in /etc/fuse.conf"
_SCRATCH = "make the folder writable, in a private layer of SIZE such as 20Gi that ends with the mount (root only)"
_PLUGINS = "use this installed framework plug-in (stoker tuning plugins) and its rules; repeatable"
_OBSERVE = "observe the reads of programs, for stoker top --mount DIR and for rules"
_SAMPLING = (
    "read order of the mount, as spec.sampling of a TrainingJob (docs/guides/known-orders.md), such as "
    """'{"sampler": "torch-distributed", "seed": 42}': prefetches the next files; implies --observe"""
)

# In the order of --help. `add_mount_flags` sets the defaults of --endpoint, --region and --cache.
_BEFORE_TUNING = (
    _flag("url", text="s3://bucket/prefix, or file:///folder of a slow disk such as NFS", metavar="URL"),
    _flag("folder", text="an empty folder", metavar="DIR", type=Path),
    _switch("--warm", text="fetch all files, or each PATH, and return when they are on this disk"),
    _flag("--list", text=_LIST, metavar="FILE", dest="listed"),
    _switch("--strict", text="exit with 3 where files cannot be read (the mount stays)"),
    _switch("-f", "--foreground", text="stay; Ctrl-C unmounts"),
    _flag("--endpoint", text=_ENDPOINT),
    _flag("--region", text=_REGION),
    _flag("--profile", text="profile of ~/.aws/config [AWS_PROFILE]", default=""),
    _switch("--no-sign-request", text="do not sign requests, even with credentials"),
    _patterns("--include", "only matching paths, such as train/**; repeatable"),
    _patterns("--exclude", "no matching paths; takes precedence over --include"),
    _flag("--cache", text="folder for fetched files (%(default)s)", type=Path),
    _size("--quota", _QUOTA),
    _switch("--pages", text="with --warm: also read the files into memory, if they fit"),
    _flag("--cpus", text=_CPUS, type=_cpus, default="Auto", metavar="LIST"),
    _size("--memory-bytes", "pin up to BYTES of file contents in memory"),
    _switch("--memory-names", text="also pin names and attributes of files in memory"),
    _size("--bandwidth-limit", "limit of --warm in bytes per second, such as 50Mi"),
    _switch("--no-last-files", text="do not fetch the last missing files in the background"),
    _switch("--no-refresh", text="use the cached listing of the source, if there is one"),
    _flag("--version", text="mount this version, which must be in the cache", default="", metavar="DIGEST"),
    _switch("--allow-other", text=_ALLOW_OTHER),
    _flag("--scratch", text=_SCRATCH, type=_scratch, default=0, metavar="SIZE"),
)
_RULES = (  # at most one of them
    _flag("--tuning", text="tuning rules; reloaded when FILE changes", type=Path, metavar="FILE"),
    _switch("--no-tuning", text="use no rules, not even the built-in ones"),
)
_AFTER_RULES = (
    _flag("--tuning-window", text=argparse.SUPPRESS, metavar="SECONDS"),  # of earlier releases
    _flag("--plugins", text=_PLUGINS, action="append", default=[], metavar="NAME"),
    _switch("--observe", text=_OBSERVE),
    _flag("--sampling", text=_SAMPLING, default="", metavar="FILE|JSON"),
    _flag(
        *("-o", "--output"),
        text="json: one JSON object per line, for scripts",
        choices=("text", "json"),
        default="text",
    ),
)


def add_mount_flags(parser: argparse.ArgumentParser, environment: Mapping[str, str], uid: int) -> None:
    """Add the arguments of `stoker mount`. Some defaults come from the environment, as for AWS programs."""
    rules = parser.add_mutually_exclusive_group()
    for group, flags in ((parser, _BEFORE_TUNING), (rules, _RULES), (parser, _AFTER_RULES)):
        for flag in flags:
            group.add_argument(*flag.names, help=flag.help, **flag.how)
    parser.set_defaults(
        endpoint=environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"),
        region=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1",
        cache=default_cache(environment, uid),
    )

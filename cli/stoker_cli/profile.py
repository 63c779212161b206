"""The command `stoker profile`: where an epoch's time goes, and what would give it back."""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from stoker_api.meta import parse_duration
from stoker_cli.cluster import Target, connect
from stoker_cli.local_mounts import LocalMount, LocalMountPath, of_a_mount
from stoker_cli.output import OUTPUT, console, print_json, refusals
from stoker_cli.profile_live import ProfiledCluster, is_of, live_profile, looked_at
from stoker_cli.profile_picture import draw_profile, require_folder, require_plot
from stoker_cli.profile_result import Profile
from stoker_cli.profile_runs import ProfileOptions, profile_command
from stoker_cli.profile_view import profile_view
from stoker_cli.profiled_mounts import DataSource, GivenMount, own_mount
from stoker_tuning.profiling.epoch_split import ProfiledRun

_COMMAND = f"{__name__}.command"  # in a click context's meta
_SCHEMES = ("s3://", "file://")
_OF_PODS = "A program can tell it by itself: docs/REPORTS.md."
_OF_MOUNTS = "Of root's mounts no stall is seen once files are cached: run the program by the profiler, -- COMMAND."
# The sign keeps click from making one paragraph of the lines.
_EXAMPLES = """\b
Examples:
  stoker profile s3://bucket/imagenet -- python train.py --epochs 1 --data {data}
  stoker profile s3://bucket/imagenet --workers 4 --png profile.png -- python train.py --data {data}
  stoker profile s3://bucket/imagenet --synthetic "python train.py --dummy" -- python train.py --data {data}
  stoker profile --mount /data --drop-pages -- python train.py --data {data}
  stoker profile resnet-0 --for 2m            a pod of the cluster, live
  stoker profile job/resnet -o json           all pods of a job
  stoker profile --mount /data                who reads a mount that was made with --observe
"""


class CommandBehindDashes(click.Command):
    """A command that takes another one behind ``--``, which click itself would not tell from arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what stands behind the first ``--`` apart."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Name it in the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


@click.command(cls=CommandBehindDashes, epilog=_EXAMPLES, options_metavar="[OPTIONS]")
@click.argument("subject", metavar="[URL|POD|pod/NAME|job/NAME]", required=False)
@click.option("-n", "--namespace", help="Of POD or job. Default: the context's namespace.")
@click.option("--for", "span", default="60s", show_default=True, help="How long a job that goes on is looked at.")
@of_a_mount
@click.option(
    "--runs",
    default="",
    metavar="LIST",
    help="Of synthetic, cached, cold; default: cached,cold, and synthetic where --synthetic says how.",
)
@click.option("--synthetic", metavar="WORDS", help="The command that trains on synthetic data, in one argument.")
@click.option("--workers", type=click.IntRange(1, 4096), help="How many workers the loader of COMMAND has.")
@click.option("--items", type=click.IntRange(1), help="Items of an epoch, where COMMAND does not report them.")
@click.option("--first-epoch", is_flag=True, help="End COMMAND when it reports its second epoch.")
@click.option("--drop-pages", is_flag=True, help="With --mount: the cold run may drop the mount's pages from memory.")
@click.option("--endpoint", help="Of URL: as with stoker mount.")
@click.option("--include", multiple=True, metavar="PATTERN", help="Of URL: only such paths; may be repeated.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Of URL: not these; may be repeated.")
@click.option("--no-sign-request", is_flag=True, help="Of URL: ask anonymously.")
@click.option(
    "--scratch",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("/var/tmp"),
    show_default=True,
    help="Where the mount of URL keeps its data meanwhile: on the disk to measure, with room for it.",
)
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), help="Draw it as well (pip install '.[plot]').")
@OUTPUT
@click.pass_context
def profile(
    ctx: click.Context,
    /,
    subject: str | None,
    namespace: str | None,
    span: str,
    mount: LocalMountPath | None,
    png: Path | None,
    output: str,
    **given: Any,
) -> None:
    """Say where the time of an epoch goes, and what would give it back.

    With a COMMAND it is run on the data of URL: once with all of it in memory (cached), once with nothing of it here
    (cold), by a mount and a cache folder of its own, which are gone afterwards; so the data is fetched twice. {data} in
    COMMAND, and the variable STOKER_PROFILE_DATA, are the folder; STOKER_PROFILE_RUN is the run. What COMMAND waits for
    its data it says by the report socket (docs/REPORTS.md; stoker-client does it in one line): then computing and
    preparation are told apart, and just its first epoch counts. Else its whole duration counts, start-up included, and
    --synthetic tells computing apart.

    Without a COMMAND a job or pod of the cluster, or who reads --mount, is looked at while it goes on.

    Fetch is what a cold run waits for more than a cached one; preparation is what a cached one waits for; compute is
    the rest. Predictions: data warm, order known, more workers; and a share of the samples an epoch. See
    docs/PROFILING.md.
    """
    command = ctx.meta[_COMMAND]
    with refusals():
        if png is not None:
            require_folder(png)
            require_plot()
        if command:
            found = _of_command(command, subject, mount, given)
        else:
            found = asyncio.run(_of_job(ctx.obj, subject, namespace, mount, _seconds(span)))
        _show(found, output)
        if png is not None:
            draw_profile(found, png)


def _show(found: Profile, output: str) -> None:
    if output == "json":
        print_json(found.wire())
    else:
        console().print(profile_view(found))


def _of_command(
    command: Sequence[str], subject: str | None, mount: LocalMountPath | None, given: dict[str, Any]
) -> Profile:
    options = ProfileOptions(
        command=tuple(command),
        synthetic=given["synthetic"],
        runs=_runs(given["runs"], given["synthetic"], drop=mount is None or given["drop_pages"]),
        workers=given["workers"],
        items=given["items"],
        first_epoch=given["first_epoch"],
        scratch=given["scratch"],
    )
    with _ended_in_order(), _source(subject, mount, given) as (name, source):
        return profile_command(name, source, options, _say)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Take a request to end as Ctrl-C while inside: command, mount and folders are gone then."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _source(
    subject: str | None, mount: LocalMountPath | None, given: dict[str, Any]
) -> Iterator[tuple[str, DataSource]]:
    """Return what the data is called, and the data."""
    if (subject is None) == (mount is None):
        raise click.UsageError("a COMMAND needs its data: a URL, or --mount DIR, and not both")
    if mount is not None:
        there = mount.find()
        runs = [] if mount.runs is None else ["--run-dir", str(mount.runs)]
        yield str(there.folder), GivenMount(there.folder, runs, drop=given["drop_pages"])
        return
    assert subject is not None, "one of the two is given"
    if not subject.startswith(_SCHEMES):
        raise click.UsageError(f"{subject!r} is no URL of data: with a COMMAND, it begins with s3:// or file://")
    with own_mount(subject, _mount_options(given), given["scratch"]) as own:
        yield subject, own


def _mount_options(given: dict[str, Any]) -> list[str]:
    words = ["--endpoint", given["endpoint"]] if given["endpoint"] else []
    words += [word for pattern in given["include"] for word in ("--include", pattern)]
    words += [word for pattern in given["exclude"] for word in ("--exclude", pattern)]
    return words + (["--no-sign-request"] if given["no_sign_request"] else [])


def _runs(text: str, synthetic: str | None, *, drop: bool) -> tuple[ProfiledRun, ...]:
    """Return the runs asked for, in the order in which they are made."""
    words = set(filter(None, text.split(",")))
    if unknown := words - {run.value for run in ProfiledRun}:
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: of synthetic, cached, cold", param_hint="--runs")
    default = {ProfiledRun.CACHED.value} | ({ProfiledRun.COLD.value} if drop else set())
    words = words or (default | ({ProfiledRun.SYNTHETIC.value} if synthetic else set()))
    if ProfiledRun.CACHED.value not in words:
        raise click.BadParameter("cached is always one of them: by it the others are told apart", param_hint="--runs")
    if (ProfiledRun.SYNTHETIC.value in words) != bool(synthetic):
        raise click.BadParameter(
            "--synthetic WORDS is the command of the synthetic run: one needs the other", param_hint="--runs"
        )
    return tuple(run for run in ProfiledRun if run.value in words)


async def _of_job(
    target: Target, subject: str | None, namespace: str | None, mount: LocalMountPath | None, seconds: float
) -> Profile:
    if (subject is None) == (mount is None):
        raise click.UsageError("say whom to look at: POD, job/NAME or --mount DIR; or run a command, behind --")
    if mount is not None:
        there = mount.find()
        return await _looked(there, str(there.folder), lambda _: True, seconds)
    assert subject is not None, "one of the two is given"
    if subject.startswith(_SCHEMES):
        raise click.UsageError("a URL is profiled by a command: add -- COMMAND...")
    wanted = namespace or target.own_namespace
    async with connect(target) as cluster:
        return await _looked(cluster, subject, lambda row: is_of(row, subject, wanted), seconds)


async def _looked(
    cluster: ProfiledCluster | LocalMount, subject: str, wanted: Callable[[Any], bool], seconds: float
) -> Profile:
    columns = (TextColumn("looking at {task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as drawn:
        task = drawn.add_task(subject, total=seconds)
        looks, pods = await looked_at(cluster, wanted, seconds, lambda passed: drawn.update(task, completed=passed))
    return live_profile(subject, looks, pods, seconds, _OF_MOUNTS if isinstance(cluster, LocalMount) else _OF_PODS)


def _say(line: str) -> None:
    click.echo(f"stoker: {line}", err=True)


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--for") from error
    if seconds <= 0:
        raise click.BadParameter("say how long, such as 60s", param_hint="--for")
    return seconds

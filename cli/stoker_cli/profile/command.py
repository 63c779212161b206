"""The command `stoker profile`: where the time of an epoch goes, and what would reduce it."""

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
from stoker_cli.access.cluster import Target, connect
from stoker_cli.access.pod_figures import WorkloadSource
from stoker_cli.local.local_mounts import LocalMount, LocalMountPath, with_mount_options
from stoker_cli.output import OUTPUT, console, print_json, refusals
from stoker_cli.profile.live import is_of, live_profile, observe
from stoker_cli.profile.profiled_mounts import DataSource, ExistingMount, temporary_mount
from stoker_cli.profile.result import Profile
from stoker_cli.profile.runs import ProfileOptions, profile_command
from stoker_cli.profile.view import draw_profile, profile_view, require_folder, require_plot
from stoker_tuning.profiling.epoch_split import ProfiledRun

_COMMAND = f"{__name__}.command"  # in a click context's meta
_SCHEMES = ("s3://", "file://")
_OF_PODS = "Or let the program report its waits: docs/guides/reports.md."
_OF_MOUNTS = "Cached files of root's mounts show no stall. Run the program with the profiler: -- COMMAND."
# \b keeps click from joining the lines.
_EXAMPLES = """\b
Examples:
  stoker profile s3://bucket/imagenet -- python train.py --epochs 1 --data {data}
  stoker profile s3://bucket/imagenet --workers 4 --png profile.png -- python train.py --data {data}
  stoker profile s3://bucket/imagenet --synthetic "python train.py --dummy" -- python train.py --data {data}
  stoker profile --mount /data --drop-pages -- python train.py --data {data}
  stoker profile resnet-0 --for 2m            a pod of the cluster, live
  stoker profile job/resnet -o json           all pods of a job
  stoker profile --mount /data                readers of a mount with --observe
"""


class CommandBehindDashes(click.Command):
    """A command that takes another command after ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Store the words after the first ``--``."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Add it to the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


@click.command(cls=CommandBehindDashes, epilog=_EXAMPLES, options_metavar="[OPTIONS]")
@click.argument("subject", metavar="[URL|POD|pod/NAME|job/NAME]", required=False)
@click.option("-n", "--namespace", help="Namespace of the pod or job. Default: the context's namespace.")
@click.option("--for", "span", default="60s", show_default=True, help="How long to observe a running job.")
@with_mount_options
@click.option(
    "--runs",
    default="",
    metavar="LIST",
    help="Runs to make: synthetic, cached, cold. Default: cached,cold, and synthetic with --synthetic.",
)
@click.option("--synthetic", metavar="WORDS", help="Command that trains on synthetic data, as one argument.")
@click.option("--workers", type=click.IntRange(1, 4096), help="Number of loader workers of COMMAND.")
@click.option("--items", type=click.IntRange(1), help="Items per epoch, if COMMAND does not report them.")
@click.option("--first-epoch", is_flag=True, help="Stop COMMAND when it reports its second epoch.")
@click.option("--drop-pages", is_flag=True, help="With --mount: allow the cold run to drop the mount's page cache.")
@click.option("--endpoint", help="Endpoint of URL, as in stoker mount.")
@click.option("--include", multiple=True, metavar="PATTERN", help="Only paths of URL that match; repeatable.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="No paths of URL that match; repeatable.")
@click.option("--no-sign-request", is_flag=True, help="Do not sign requests for URL.")
@click.option(
    "--scratch",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("/var/tmp"),
    show_default=True,
    help="Cache folder of the mount of URL: on the disk to measure, with enough space.",
)
@click.option(
    "--png", type=click.Path(dir_okay=False, path_type=Path), help="Also write a plot (pip install '.[plot]')."
)
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
    """Show where the time of an epoch goes, and what would save some of it.

    Runs COMMAND on the data of URL twice: with all data in memory (cached), and with no local data (cold). Each run
    has a temporary mount and cache folder, so the data is fetched twice. {data} in COMMAND and the variable
    STOKER_PROFILE_DATA are the data folder; STOKER_PROFILE_RUN is the name of the run. If COMMAND reports its waits
    (docs/guides/reports.md; one line with stoker-client), the first epoch is measured, and compute and preparation are
    separate. Otherwise the whole run is measured, with its startup; --synthetic then measures compute.

    Without a COMMAND, observes a running job or pod of the cluster, or the readers of --mount.

    Fetch is the extra time of the cold run; preparation is the wait of the cached run; compute is the rest.
    Predictions: warm data, a known order, more workers, and epochs with a share of the samples. See
    docs/guides/profiling.md.
    """
    command = ctx.meta[_COMMAND]
    with refusals():
        if png is not None:
            require_folder(png)
            require_plot()
        if command:
            result = _of_command(command, subject, mount, given)
        else:
            result = asyncio.run(_of_job(ctx.obj, subject, namespace, mount, _seconds(span)))
        _show(result, output)
        if png is not None:
            draw_profile(result, png)


def _show(result: Profile, output: str) -> None:
    if output == "json":
        print_json(result.wire())
    else:
        console().print(profile_view(result))


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
    """Handle SIGTERM and SIGHUP like Ctrl-C, so that command, mount and folders are removed."""
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
    """Yield the name of the data, and the data."""
    if (subject is None) == (mount is None):
        raise click.UsageError("COMMAND needs either a URL or --mount DIR.")
    if mount is not None:
        folder = mount.find().folder
        runs = [] if mount.runs is None else ["--run-dir", str(mount.runs)]
        yield str(folder), ExistingMount(folder, runs, drop=given["drop_pages"])
        return
    assert subject is not None, "one of the two is given"
    if not subject.startswith(_SCHEMES):
        raise click.UsageError(
            f"{subject!r} is not a data URL. Use s3://BUCKET/PREFIX or file:///FOLDER with a COMMAND."
        )
    with temporary_mount(subject, _mount_options(given), given["scratch"]) as own:
        yield subject, own


def _mount_options(given: dict[str, Any]) -> list[str]:
    words = ["--endpoint", given["endpoint"]] if given["endpoint"] else []
    words += [word for pattern in given["include"] for word in ("--include", pattern)]
    words += [word for pattern in given["exclude"] for word in ("--exclude", pattern)]
    return words + (["--no-sign-request"] if given["no_sign_request"] else [])


def _runs(text: str, synthetic: str | None, *, drop: bool) -> tuple[ProfiledRun, ...]:
    """Return the selected runs in order."""
    words = set(filter(None, text.split(",")))
    if unknown := words - {run.value for run in ProfiledRun}:
        raise click.BadParameter(
            f"unknown run {', '.join(sorted(unknown))}; use synthetic, cached or cold", param_hint="--runs"
        )
    default = {ProfiledRun.CACHED.value} | ({ProfiledRun.COLD.value} if drop else set())
    words = words or (default | ({ProfiledRun.SYNTHETIC.value} if synthetic else set()))
    if ProfiledRun.CACHED.value not in words:
        raise click.BadParameter("cached is missing; all other runs are compared with it", param_hint="--runs")
    if (ProfiledRun.SYNTHETIC.value in words) != bool(synthetic):
        raise click.BadParameter(
            "the run synthetic and the option --synthetic WORDS need each other", param_hint="--runs"
        )
    return tuple(run for run in ProfiledRun if run.value in words)


async def _of_job(
    target: Target, subject: str | None, namespace: str | None, mount: LocalMountPath | None, seconds: float
) -> Profile:
    if (subject is None) == (mount is None):
        raise click.UsageError("Use one of POD, job/NAME, --mount DIR or -- COMMAND.")
    if mount is not None:
        local = mount.find()
        return await _observe(local, str(local.folder), lambda _: True, seconds)
    assert subject is not None, "one of the two is given"
    if subject.startswith(_SCHEMES):
        raise click.UsageError("A URL needs a command. Add -- COMMAND...")
    wanted = namespace or target.own_namespace
    async with connect(target) as cluster:
        return await _observe(cluster, subject, lambda row: is_of(row, subject, wanted), seconds, wanted)


async def _observe(
    cluster: WorkloadSource,
    subject: str,
    wanted: Callable[[Any], bool],
    seconds: float,
    namespace: str = "",
) -> Profile:
    columns = (TextColumn("observing {task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as drawn:
        task = drawn.add_task(subject, total=seconds)
        looks, pods = await observe(
            cluster, wanted, seconds, lambda passed: drawn.update(task, completed=passed), namespace
        )
    return live_profile(subject, looks, pods, seconds, _OF_MOUNTS if isinstance(cluster, LocalMount) else _OF_PODS)


def _say(line: str) -> None:
    click.echo(f"stoker: {line}", err=True)


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--for") from error
    if seconds <= 0:
        raise click.BadParameter("must be positive, such as 60s", param_hint="--for")
    return seconds

"""The command `stoker mount`: from the preflight checks to the last line."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from stoker_api.dataset import MountMode
from stoker_sidecar.errors import MountRefused
from stoker_sidecar.local import mounted
from stoker_sidecar.local.mount_paths import HomePaths, run_paths
from stoker_sidecar.local.mount_spec import MountSpec, home_paths
from stoker_sidecar.local.options import MountOptions, environment_of
from stoker_sidecar.local.preflight import check_folder, check_machine, check_others, real_folder
from stoker_sidecar.local.report import Report, Stage, heard_line, mounted_line, order_line, read_report, tuning_line
from stoker_sidecar.local.seed_hint import seed_hint
from stoker_sidecar.local.session import MountSession
from stoker_sidecar.local.terminal import PlainOutput, ProgressView, progress_view
from stoker_sidecar.version.listing import read_listing

_LOOK_EVERY = 0.1  # seconds: what a person takes for at once
_LOOK_SOON = 0.02  # until it is mounted, as scripts wait for that
# Keeper and agent import for about a second; on a machine that is being overworked for many.
_START_SECONDS = 60.0
# A version that is whole is swapped in at once; where the kernel refuses, FUSE serves it for good.
_SWAP_SECONDS = 5.0
# The fetcher says what is here as soon as it has looked: at once, but for versions of many files.
_KNOWN_SECONDS = 2.0


@dataclass
class StopSignals:
    """Whether a signal asked this command to stop; looked at between two steps."""

    asked: bool = False  # SIGINT, SIGTERM or SIGHUP came


def mount(options: MountOptions, environment: Mapping[str, str]) -> None:
    """Mount, and return when it is mounted; in the foreground, when it is unmounted again.

    Raises MountRefused, MountError and OSError with a sentence; then nothing is mounted.
    """
    uid, folder = os.geteuid(), real_folder(options.folder)
    check_machine(uid)
    if options.allow_other and uid != 0:
        check_others()
    mounted.clear_leftovers(options.runs)
    check_folder(folder, options.cache, uid)
    home = home_paths(options.cache, options.source)
    with _stop_signals() as stop:
        lock = _lock(home)
        try:
            session = MountSession(spec_of(options, home, folder), run_paths(options.runs, home))
            keeper = session.start(lock, environment_of(options, environment), with_parent=options.foreground)
        finally:
            os.close(lock)  # the keeper has it now
        _attend(session, keeper, options, stop, hint=seed_hint(environment) if not options.sampling else "")


def _lock(home: HomePaths) -> int:
    try:
        return mounted.lock(home)
    except OSError as error:
        raise MountRefused(
            f"the cache folder {home.folder} cannot be written ({error.strerror}): give another by --cache"
        ) from error


def spec_of(options: MountOptions, home: HomePaths, folder: Path) -> MountSpec:
    """Return what the mount should be, as its agent is told.

    Raises MountRefused when the version that was asked for is not in the cache.
    """
    version = _cached_version(options, home)
    return MountSpec(
        source=options.source,
        folder=folder,
        home=home.folder,
        listing_id="" if version else uuid4().hex,
        version=version,
        eager=options.warm,
        warm_paths=options.warm_paths,
        quota_bytes=options.quota_bytes,
        bytes_per_second=options.bytes_per_second,
        allow_other=options.allow_other,
        tuning=options.tuning,
        tuned=options.tuned,
        tuning_window=options.tuning_window,
        plugins=options.plugins,
        observe=options.observe,
        sampling=options.sampling,
        memory_names=options.memory_names,
        memory_bytes=options.memory_bytes,
        pages=options.pages,
        cpus=options.cpus,
        last_files=options.last_files,
    )


def _cached_version(options: MountOptions, home: HomePaths) -> str:
    """Return the digest to mount without asking the source; empty: list it."""
    if not options.version and options.refresh:
        return ""
    here = sorted(home.dataset.digests())
    if options.version:
        found = [digest for digest in here if digest.startswith(options.version)]
        if len(found) == 1:
            return found[0]
        there = ", ".join(here) or "there are none"
        raise MountRefused(f"--version {options.version!r} fits {len(found)} of the versions in the cache: {there}")
    listing = read_listing(home.dataset)
    return listing.version if listing is not None and listing.version in here else ""


def _attend(
    session: MountSession, keeper: "subprocess.Popen[bytes]", options: MountOptions, stop: StopSignals, hint: str
) -> None:
    """Follow it, and leave it running or, in the foreground and whenever something is wrong, end it.

    ``hint``: what could be said of its order, a sentence.
    """
    stays = False
    try:
        with progress_view(as_json=options.json) as view:
            report = wait_for_mount(session, keeper, options, stop, view)
            view.say(mounted_line(options.source.uri, str(session.spec.folder), report), report)
        for line in filter(None, (heard_line(report), hint)):
            print(f"stoker: {line}", file=sys.stderr)
        if options.foreground:
            out = PlainOutput(as_json=options.json, out=sys.stdout if options.json else sys.stderr)
            _wait_for_the_end(session, keeper, stop, out)
        stays = not options.foreground
    finally:
        if not stays:
            session.mounted.end()
            keeper.wait()


def wait_for_mount(
    session: MountSession,
    keeper: "subprocess.Popen[bytes]",
    options: MountOptions,
    stop: StopSignals,
    view: ProgressView,
) -> Report:
    """Show how far the mount is until it is as far as was asked for.

    Raises MountRefused with the reason why it will not be.
    """
    began = time.monotonic()
    known_by = float("inf")
    swapped_by = 0.0 if os.geteuid() != 0 else float("inf")  # a user's mount is FUSE for good
    while True:
        report, now = read_report(session.run.report), time.monotonic()
        _refuse(report, options, session.home)
        view.show(report)
        if report.warm:
            swapped_by = min(swapped_by, now + _SWAP_SECONDS)
        if report.stage is Stage.MOUNTED:
            known_by = min(known_by, now + _KNOWN_SECONDS)
        known = report.known or now >= known_by
        if known and is_done(report, warm=options.warm, pages=options.pages, swap_over=now >= swapped_by):
            return report
        if stop.asked:
            raise MountRefused("stopped, so nothing is mounted; what was fetched stays in the cache")
        if keeper.poll() is not None or (report.stage is Stage.STARTING and now - began > _START_SECONDS):
            raise MountRefused(
                f"the processes that serve the mount do not come up: see {session.home.log}{_last_words(session)}"
            )
        time.sleep(_LOOK_EVERY if report.stage is Stage.MOUNTED else _LOOK_SOON)


def is_done(report: Report, *, warm: bool, swap_over: bool, pages: bool = False) -> bool:
    """Return whether the command may return. ``swap_over``: do not wait for a faster mount any more. Pure.

    ``pages``: what is warm is to be in memory, too.
    """
    if report.stage is not Stage.MOUNTED or not warm:
        return report.stage is Stage.MOUNTED
    if pages and not report.in_memory:
        return False
    return report.full or report.paths_warm or (report.warm and (report.mode is MountMode.NATIVE or swap_over))


def _refuse(report: Report, options: MountOptions, home: HomePaths) -> None:
    if report.stage is Stage.FAILED:
        unlisted = report.row is not None and report.row.listing is not None and report.row.listing.error is not None
        offline = unlisted and read_listing(home.dataset) is not None
        hint = "; --no-refresh mounts what was listed before" if offline else ""
        raise MountRefused(f"{report.message}{hint}")
    if options.warm and report.stage is Stage.MOUNTED and report.stuck:
        raise MountRefused(f"not everything can be fetched: {report.stuck} (without --warm, only those files fail)")


def _last_words(session: MountSession) -> str:
    """Return the log's last error, if it has one."""
    errors: list[str] = []
    with suppress(OSError):
        errors = [
            line
            for line in session.home.log.read_text(errors="replace").splitlines()
            if "Error" in line or "ERROR" in line
        ]
    return f" (last: {errors[-1].strip()})" if errors else ""


def _wait_for_the_end(
    session: MountSession, keeper: "subprocess.Popen[bytes]", stop: StopSignals, view: ProgressView
) -> None:
    """Wait for a signal, or for `stoker umount` to end the keeper; say meanwhile which rules come into force.

    And whether it is read in the order that was said.

    Raises MountRefused when the keeper ended by itself.
    """
    said = {"tuning": "", "order": ""}
    while not stop.asked and keeper.poll() is None:
        report = read_report(session.run.report)
        for about, line in (("tuning", tuning_line(report.tuning)), ("order", order_line(report.order))):
            if line and line != said[about]:
                view.say(line, report)
                said[about] = line
        time.sleep(_LOOK_EVERY)
    if keeper.poll():
        raise MountRefused(f"the keeper of the mount ended with code {keeper.returncode}: see {session.home.log}")


@contextmanager
def _stop_signals() -> Iterator[StopSignals]:
    """Note signals while inside, in place of dying of them."""
    stop = StopSignals()

    def ask(_number: int, _frame: object) -> None:
        stop.asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

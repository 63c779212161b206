"""The command `stoker mount`, from the preflight checks to the last line."""

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

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.errors import MountRefused
from stoker_sidecar.linux.mounts import mountinfo
from stoker_sidecar.local.commands.session import MountSession
from stoker_sidecar.local.mounts import mounted
from stoker_sidecar.local.mounts.mount_paths import HomePaths, run_paths
from stoker_sidecar.local.mounts.mount_spec import MountSpec, home_paths
from stoker_sidecar.local.mounts.mounted import FoundMount, all_mounted
from stoker_sidecar.local.mounts.preflight import check_folder, check_machine, check_others, real_folder, users_of
from stoker_sidecar.local.options.mount_options import MountOptions, environment_of
from stoker_sidecar.local.reports.report import (
    Report,
    Stage,
    heard_line,
    mounted_line,
    order_line,
    read_report,
    tuning_line,
    unsigned_words,
)
from stoker_sidecar.local.reports.terminal import PlainOutput, ProgressView, progress_view, seed_hint
from stoker_sidecar.version.listing import read_listing

_LOOK_EVERY = 0.1  # seconds: people perceive this as immediate
_LOOK_SOON = 0.02  # until it is mounted, because scripts wait for that
# Imports of keeper and agent take about a second, and many on an overloaded machine.
_START_SECONDS = 60.0
# A complete version is swapped in at once. If the kernel refuses, FUSE serves it permanently.
_SWAP_SECONDS = 5.0
# The fetcher reports the files on this disk at once, except for versions of many files. The second limit is for a busy
# machine, where the fetcher has not reported the version yet.
_KNOWN_SECONDS, _NAMED_SECONDS = 2.0, 30.0
INCOMPLETE = 3  # exit code of --strict: mounted, with unreadable files


@dataclass
class StopSignals:
    """Records if a signal asked this command to stop. It is checked between two steps."""

    asked: bool = False  # set by SIGINT, SIGTERM or SIGHUP


def mount(options: MountOptions, environment: Mapping[str, str]) -> int:
    """Mount, and return the exit code once mounted; in the foreground, once unmounted.

    Raises MountRefused, MountError and OSError with a sentence; then nothing is mounted.
    """
    uid, folder = os.geteuid(), real_folder(options.folder)
    check_machine(uid)
    if options.allow_other and uid != 0:
        check_others()
    if options.scratch_bytes and uid != 0:
        raise MountRefused("--scratch needs root, which alone can mount a writable layer: use sudo, or leave it out")
    mounted.clear_leftovers(options.runs)
    check_folder(folder, options.cache, uid)
    home = home_paths(options.cache, options.source)
    with _stop_signals() as stop:
        end_abandoned(options.runs, home.folder)
        lock = _lock(home)
        try:
            session = MountSession(spec_of(options, home, folder), run_paths(options.runs, home))
            keeper = session.start(lock, environment_of(options, environment), with_parent=options.foreground)
        finally:
            os.close(lock)  # the keeper has it now
        report = _attend(session, keeper, options, stop, hint=seed_hint(environment) if not options.sampling else "")
    return INCOMPLETE if options.strict and report.incomplete else 0


def _lock(home: HomePaths) -> int:
    try:
        return mounted.lock(home)
    except OSError as error:
        raise MountRefused(
            f"the cache folder {home.folder} cannot be written ({error.strerror}): give another by --cache"
        ) from error


def spec_of(options: MountOptions, home: HomePaths, folder: Path) -> MountSpec:
    """Return the specification of the mount for its agent.

    Raises MountRefused if the requested version is not in the cache.
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
        plugins=options.plugins,
        observe=options.observe,
        sampling=options.sampling,
        memory_names=options.memory_names,
        memory_bytes=options.memory_bytes,
        pages=options.pages,
        cpus=options.cpus,
        last_files=options.last_files,
        scratch_bytes=options.scratch_bytes,
    )


def _cached_version(options: MountOptions, home: HomePaths) -> str:
    """Return the digest to mount without listing the source; empty: list it."""
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
) -> Report:
    """Follow the mount, and leave it running. In the foreground and after errors, end it. Return its last report.

    ``hint`` is a suggestion for its order, a sentence.
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
        return report
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
    """Show the mount's progress until it has reached the requested state.

    Raises MountRefused with the reason if it cannot.
    """
    began = time.monotonic()
    known_by = float("inf")
    # A user's mount stays on FUSE, and one with scratch on its overlay.
    swapped_by = 0.0 if os.geteuid() != 0 or options.scratch_bytes else float("inf")
    while True:
        report, now = read_report(session.run.report), time.monotonic()
        _refuse(report, options, session.home)
        view.show(report)
        if report.warm:
            swapped_by = min(swapped_by, now + _SWAP_SECONDS)
        if report.stage is Stage.MOUNTED:
            named = report.row is not None and bool(report.row.version)
            known_by = min(known_by, now + (_KNOWN_SECONDS if named else _NAMED_SECONDS))
        known = report.known or now >= known_by
        if known and is_done(report, warm=options.warm, pages=options.pages, swap_over=now >= swapped_by):
            return report
        if stop.asked:
            raise MountRefused("stopped, so nothing is mounted; fetched data stays in the cache")
        if keeper.poll() is not None or (report.stage is Stage.STARTING and now - began > _START_SECONDS):
            raise MountRefused(
                f"the processes that serve the mount do not come up: see {session.home.log}{_last_words(session)}"
            )
        time.sleep(_LOOK_EVERY if report.stage is Stage.MOUNTED else _LOOK_SOON)


def is_done(report: Report, *, warm: bool, swap_over: bool, pages: bool = False) -> bool:
    """Return True if the command may return. ``swap_over`` means not to wait for a faster mount. Pure.

    ``pages`` means that warm files must also be in memory.
    """
    if report.stage is not Stage.MOUNTED or not warm:
        return report.stage is Stage.MOUNTED
    if pages and not report.in_memory:
        return False
    settled = report.full or bool(report.unreadable) or report.paths_warm
    return settled or (report.warm and (report.mode is MountMode.NATIVE or swap_over))


def _refuse(report: Report, options: MountOptions, home: HomePaths) -> None:
    """Raise MountRefused if mounting failed, or if requested files cannot become warm."""
    if report.stage is Stage.FAILED:
        unlisted = report.row is not None and report.row.listing is not None and report.row.listing.error is not None
        offline = unlisted and read_listing(home.dataset) is not None
        hint = "; --no-refresh mounts what was listed before" if offline else ""
        raise MountRefused(f"{report.message if options.sign else unsigned_words(report.message)}{hint}")
    if options.warm and report.stage is Stage.MOUNTED and report.stuck:
        raise MountRefused(f"not everything can be fetched: {report.stuck} (without --warm, only those files fail)")


def _last_words(session: MountSession) -> str:
    """Return the log's last error, if there is one."""
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
    """Wait for a signal, or for `stoker umount` to end the keeper. Print changes of rules and of the order's state.

    Raises MountRefused if the keeper ended unexpectedly.
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
    """Record signals inside the context, instead of dying from them."""
    stop = StopSignals()

    def ask(_number: int, _frame: object) -> None:
        stop.asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_abandoned(runs: Path, home: Path) -> None:
    """End each mount of this user that is no longer mounted at its folder.

    Raises MountError. Raises MountRefused if programs still read the mount of the requested cache folder ``home``.
    Other mounts with readers continue.
    """
    for mount in all_mounted(runs):
        keeper = mount.pid()
        if keeper is None or not _is_abandoned(mount, keeper):
            continue
        users = users_of(mount.folder, mount.shown(), keeper)
        if not users:
            mount.end()
        elif mount.home.folder == home:
            raise MountRefused(
                f"this source was unmounted at {mount.folder}, but {users} still reads it: end that first, or take it "
                f"away from under them (stoker umount {mount.folder} --force)"
            )


def _is_abandoned(mount: FoundMount, keeper: int) -> bool:
    """Return True if it was mounted, and its keeper sees no mount at its folder."""
    if read_report(mount.run.report).stage is not Stage.MOUNTED:
        return False  # mounting is in progress
    with suppress(OSError):  # the keeper has just ended
        return not mountinfo.layers(mountinfo.read(keeper), os.fspath(mount.folder))
    return False

"""Follows a mount that was started, until it is as far as was asked for or cannot get there."""

import os
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass

from stoker_api.dataset import MountMode
from stoker_sidecar.errors import MountRefused
from stoker_sidecar.local.options import MountOptions
from stoker_sidecar.local.paths import Home
from stoker_sidecar.local.report import Report, Stage, read_report
from stoker_sidecar.local.session import Household
from stoker_sidecar.local.terminal import Screen
from stoker_sidecar.version.layout import read_listing

LOOK_EVERY = 0.1  # seconds: what a person takes for at once
# Keeper and agent import for about a second; on a machine that is being overworked for many.
_START_SECONDS = 60.0
# A version that is whole is swapped in at once; where the kernel refuses, FUSE serves it for good.
_SWAP_SECONDS = 5.0


@dataclass
class StopSignals:
    """``asked``: SIGINT or SIGTERM came."""

    asked: bool = False


def follow(
    house: Household, keeper: "subprocess.Popen[bytes]", options: MountOptions, stop: StopSignals, shown: Screen
) -> Report:
    """Until it is as far as was asked for. Raises MountRefused with the reason why it will not be."""
    began = time.monotonic()
    swapped_by = 0.0 if os.geteuid() != 0 else float("inf")  # a user's mount is FUSE for good
    while True:
        report, now = read_report(house.run.report), time.monotonic()
        _refuse(report, options, house.home)
        shown.show(report)
        if report.warm:
            swapped_by = min(swapped_by, now + _SWAP_SECONDS)
        if is_done(report, warm=options.warm, swap_over=now >= swapped_by):
            return report
        if stop.asked:
            raise MountRefused("stopped, so nothing is mounted; what was fetched stays in the cache")
        if keeper.poll() is not None or (report.stage is Stage.STARTING and now - began > _START_SECONDS):
            raise MountRefused(
                f"the processes that serve the mount do not come up: see {house.home.log}{_last_words(house)}"
            )
        time.sleep(LOOK_EVERY)


def is_done(report: Report, *, warm: bool, swap_over: bool) -> bool:
    """Whether the command may return. ``swap_over``: do not wait for a faster mount any more. Pure."""
    if report.stage is not Stage.MOUNTED or not warm:
        return report.stage is Stage.MOUNTED
    return report.full or (report.warm and (report.mode is MountMode.NATIVE or swap_over))


def _refuse(report: Report, options: MountOptions, home: Home) -> None:
    if report.stage is Stage.FAILED:
        unlisted = report.row is not None and report.row.listing is not None and report.row.listing.error is not None
        offline = unlisted and read_listing(home.dataset) is not None
        hint = "; --no-refresh mounts what was listed before" if offline else ""
        raise MountRefused(f"{report.message}{hint}")
    if options.warm and report.stage is Stage.MOUNTED and report.stuck:
        raise MountRefused(f"not everything can be fetched: {report.stuck} (without --warm, only those files fail)")


def _last_words(house: Household) -> str:
    """The log's last error, if it has one."""
    errors: list[str] = []
    with suppress(OSError):
        errors = [
            line
            for line in house.home.log.read_text(errors="replace").splitlines()
            if "Error" in line or "ERROR" in line
        ]
    return f" (last: {errors[-1].strip()})" if errors else ""

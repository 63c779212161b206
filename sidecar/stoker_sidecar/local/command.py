"""`stoker mount` and `stoker umount`: from the door to the last line."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from stoker_sidecar.errors import MountRefused
from stoker_sidecar.local import progress
from stoker_sidecar.local import session as household
from stoker_sidecar.local.follow import LOOK_EVERY, StopSignals, follow
from stoker_sidecar.local.mount_spec import Wish
from stoker_sidecar.local.options import MountOptions, UmountOptions, environment_of
from stoker_sidecar.local.paths import Home, home_of, run_of
from stoker_sidecar.local.preflight import check_folder, check_machine, check_others, real_folder
from stoker_sidecar.local.programs import programs_in
from stoker_sidecar.local.session import Household
from stoker_sidecar.local.terminal import screen
from stoker_sidecar.version.layout import read_listing


def mount(options: MountOptions, environment: Mapping[str, str]) -> None:
    """Return when it is mounted; in the foreground, when it is unmounted again.

    Raises MountRefused, MountError and OSError with a sentence; then nothing is mounted.
    """
    uid, folder = os.geteuid(), real_folder(options.folder)
    check_machine(uid)
    if options.allow_other and uid != 0:
        check_others()
    household.clear_leftovers(options.runs)
    check_folder(folder, options.cache, uid)
    home = home_of(options.cache, options.source)
    with _stop_signals() as stop:
        lock = _lock(home)
        try:
            house = Household(wish_of(options, home, folder), run_of(options.runs, home))
            keeper = house.start(lock, environment_of(options, environment), with_parent=options.foreground)
        finally:
            os.close(lock)  # the keeper has it now
        _attend(house, keeper, options, stop)


def _lock(home: Home) -> int:
    try:
        return household.lock(home)
    except OSError as error:
        raise MountRefused(
            f"the cache folder {home.folder} cannot be written ({error.strerror}): give another by --cache"
        ) from error


def umount(options: UmountOptions) -> None:
    """Return when nothing of ours is mounted there and no process is left. Raises MountRefused and MountError."""
    folder = real_folder(options.folder)
    for house in household.households(options.runs):
        if house.wish.folder == folder:
            if not options.force and house.pid() is not None:  # a dead mount serves no one
                _refuse_in_use(folder)
            return house.end()
    raise MountRefused(f"{folder} is not mounted by a stoker mount of this user")


def _refuse_in_use(folder: Path) -> None:
    if users := programs_in(folder):
        raise MountRefused(
            f"{folder} is in use by {', '.join(users)}: end that first, or take it away from under them (--force)"
        )


def wish_of(options: MountOptions, home: Home, folder: Path) -> Wish:
    """What the household is told. Raises MountRefused when the version that was asked for is not in the cache."""
    version = _cached_version(options, home)
    return Wish(
        source=options.source,
        folder=folder,
        home=home.folder,
        listing_id="" if version else uuid4().hex,
        version=version,
        eager=options.warm,
        quota_bytes=options.quota_bytes,
        bytes_per_second=options.bytes_per_second,
        allow_other=options.allow_other,
    )


def _cached_version(options: MountOptions, home: Home) -> str:
    """The digest to mount without asking the source; empty: list it."""
    if not options.version and options.refresh:
        return ""
    here = sorted(home.dataset.digests())
    if options.version:
        found = [digest for digest in here if digest.startswith(options.version)]
        if len(found) == 1:
            return found[0]
        raise MountRefused(
            f"--version {options.version!r} fits {len(found)} of the versions in the cache: {', '.join(here) or 'there are none'}"
        )
    listing = read_listing(home.dataset)
    return listing.version if listing is not None and listing.version in here else ""


def _attend(house: Household, keeper: "subprocess.Popen[bytes]", options: MountOptions, stop: StopSignals) -> None:
    """Follow it, and leave it running or, in the foreground and whenever something is wrong, end it."""
    stays = False
    try:
        with screen(as_json=options.json) as shown:
            report = follow(house, keeper, options, stop, shown)
            shown.say(progress.mounted(options.source.uri, str(house.wish.folder), report), report)
        if options.foreground:
            _wait_for_the_end(house, keeper, stop)
        stays = not options.foreground
    finally:
        if not stays:
            house.end()
            keeper.wait()


def _wait_for_the_end(house: Household, keeper: "subprocess.Popen[bytes]", stop: StopSignals) -> None:
    """Until a signal, or until `stoker umount` ended the keeper. Raises MountRefused when it ended by itself."""
    while not stop.asked and keeper.poll() is None:
        time.sleep(LOOK_EVERY)
    if keeper.poll():
        raise MountRefused(f"the keeper of the mount ended with code {keeper.returncode}: see {house.home.log}")


@contextmanager
def _stop_signals() -> Iterator[StopSignals]:
    """From here on a signal is a wish, which is looked at between two steps."""
    stop = StopSignals()

    def ask(_number: int, _frame: object) -> None:
        stop.asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

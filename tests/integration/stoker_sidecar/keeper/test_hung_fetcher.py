"""A fetcher that is stopped (SIGSTOP) is killed at once, and another takes its place on its socket."""

import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

from stoker_sidecar.keeper.children import Child, Reaper
from stoker_sidecar.keeper.watchdog import PROMPT
from stoker_sidecar.keeper.zygotes import FETCHERS
from stoker_sidecar.linux.spawn import Start
from tests.support.waiting import eventually

_SECONDS = 60.0  # seconds of imports on a busy machine


async def test_a_fetcher_that_is_stopped_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "fetcher.sock"
    start = Start([*FETCHERS.program, "--socket", str(path), "--root", str(tmp_path / "cache"), "--workers", "0"])
    reaper = Reaper()
    reaper.install()
    fetcher = Child("fetcher", reaper, lambda: start, replace(PROMPT, silence=None))
    fetcher.begin()
    try:
        await eventually(lambda: _listens(path), _SECONDS)
        stopped = fetcher.pid
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        await eventually(lambda: fetcher.pid not in (None, stopped), _SECONDS)
        await eventually(lambda: _listens(path), _SECONDS)
        assert fetcher.last_code == -signal.SIGKILL
    finally:
        await fetcher.stop(grace=0)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0

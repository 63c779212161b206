"""How long processes wait for a zygote that imports, before they start without it."""

import asyncio

import pytest

from stoker_sidecar.keeper.children import Reaper
from stoker_sidecar.keeper.zygotes import FETCHERS, FUSE_SERVERS, ZygoteKind, ZygotePair
from tests.support.virtual_time import run_virtual


async def _seconds_until_they_start_without(kind: ZygoteKind) -> float:
    before = asyncio.get_running_loop().time()
    pair = ZygotePair(kind, Reaper(), None)
    await pair.until_ready()
    await pair.stop()
    return asyncio.get_running_loop().time() - before


@pytest.mark.parametrize(("kind", "seconds"), [(FUSE_SERVERS, 10), (FETCHERS, 30)])
def test_a_fetcher_waits_longer_for_its_zygote_than_a_mount_may(kind: ZygoteKind, seconds: float) -> None:
    assert run_virtual(_seconds_until_they_start_without(kind)) == pytest.approx(seconds, abs=1e-6)

"""How long processes wait for a zygote during its imports, before they start without it."""

import asyncio

import pytest

from stoker_sidecar.keeper.children import Reaper
from stoker_sidecar.keeper.zygotes import FETCHERS, FUSE_SERVERS, Zygote, ZygoteKind
from tests.support.virtual_time import run_virtual


async def _seconds_until_they_start_without(kind: ZygoteKind) -> float:
    before = asyncio.get_running_loop().time()
    zygote = Zygote(kind, Reaper(), None)
    await zygote.until_ready()
    await zygote.stop()
    return asyncio.get_running_loop().time() - before


@pytest.mark.parametrize(("kind", "seconds"), [(FUSE_SERVERS, 10), (FETCHERS, 30)])
def test_a_fetcher_waits_longer_for_its_zygote_than_a_mount_may(kind: ZygoteKind, seconds: float) -> None:
    assert run_virtual(_seconds_until_they_start_without(kind)) == pytest.approx(seconds, abs=1e-6)

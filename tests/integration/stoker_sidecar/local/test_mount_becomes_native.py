"""A mount without `--warm` becomes native after a full read. Its fetcher knows whether to fetch the rest."""

import pytest

from tests.support.stoker_mount import StokerMount
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
FILES = {f"set/{n}/{n}.bin": bytes([n]) * 100_000 for n in range(8)}


def test_what_was_read_whole_is_native_and_read_on(stoker: StokerMount) -> None:
    stoker.mount()
    before = stoker.mode()
    with (stoker.data / "0" / "0.bin").open("rb") as held:
        found = {f"set/{n}/{n}.bin": (stoker.data / str(n) / f"{n}.bin").read_bytes() for n in range(8)}
        wait_until(lambda: not stoker.mode().startswith(("fuse", "overlay")))
        assert (before.startswith(("fuse", "overlay")), found) == (True, FILES)
        assert held.read() == FILES["set/0/0.bin"]


@pytest.mark.parametrize(("options", "told"), [((), "Auto"), (("--no-last-files",), "Off")])
def test_the_fetcher_is_told_whether_the_rest_is_fetched(
    stoker: StokerMount, options: tuple[str, ...], told: str
) -> None:
    stoker.mount(*options)
    # The keeper's command includes the fetcher's, which it starts by a zygote.
    assert f"--last-files={told}" in stoker.commands()

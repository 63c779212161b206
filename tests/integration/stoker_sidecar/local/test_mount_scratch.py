"""A writable folder over a cold bucket, by `stoker mount --scratch`."""

import os
import signal

import pytest

from stoker_sidecar.linux.mounts import mountinfo
from tests.support.stoker_mount import StokerMount
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
FILES = {f"set/{n}.bin": os.urandom(300_000) for n in range(4)}


def test_cold_files_are_read_and_written_and_the_next_mount_has_the_sources_bytes(stoker: StokerMount) -> None:
    stoker.mount("--scratch", "64Mi")
    with (stoker.data / "0.bin").open("r+b") as file:  # cold: the kernel copies it up through FUSE
        file.write(b"mine")
    (stoker.data / "1.bin").unlink()
    (stoker.data / "cache.arrow").write_bytes(b"cache")
    assert (stoker.data / "0.bin").read_bytes() == b"mine" + FILES["set/0.bin"][4:]
    assert (stoker.data / "2.bin").read_bytes() == FILES["set/2.bin"]
    assert sorted(path.name for path in stoker.data.iterdir()) == ["0.bin", "2.bin", "3.bin", "cache.arrow"]
    stoker.umount()
    assert not [row for row in mountinfo.read() if "/scratch/" in row.target]
    stoker.mount()
    assert {f"set/{path.name}": path.read_bytes() for path in stoker.data.iterdir()} == FILES


def test_a_layer_survives_a_killed_agent(stoker: StokerMount) -> None:
    stoker.mount("--scratch", "64Mi", "--warm")
    (stoker.data / "kept").write_bytes(b"kept")
    (agent,) = stoker.agents()
    os.kill(agent, signal.SIGKILL)
    wait_until(lambda: bool(stoker.agents() - {agent}))
    (stoker.data / "3.bin").write_bytes(b"new")
    assert (stoker.data / "kept").read_bytes() == b"kept"

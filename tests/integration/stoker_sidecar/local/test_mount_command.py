"""`stoker mount` on a real kernel, of a real S3 server: what a researcher at a workstation sees."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ports import free_ports
from tests.support.s3 import S3Server, running_s3
from tests.support.standalone import SECONDS, Workstation
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
FILES = {f"set/class-{number % 2}/{number:02}.bin": bytes([number]) * 20_000 for number in range(12)}
FILES |= {"set/large.bin": os.urandom(9 * 1024 * 1024), "other/one.txt": b"one"}
NOBODY = 65534


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3(tmp_path_factory.mktemp("s3")) as running:
        asyncio.run(fill(running))
        yield running


async def fill(server: S3Server) -> None:
    async with server.client() as client:
        await client.create_bucket(Bucket="data")
        for key, body in FILES.items():
            await client.put_object(Bucket="data", Key=key, Body=body)


@pytest.fixture
def station(server: S3Server) -> Iterator[Workstation]:
    with Workstation(server) as made:
        yield made


@pytest.fixture
def fuse_for_all() -> Iterator[None]:
    """As distributions have the device."""
    device = Path("/dev/fuse")
    before = device.stat().st_mode
    device.chmod(0o666)
    yield
    device.chmod(before)


def seen(folder: Path) -> dict[str, bytes]:
    return {f"set/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def wanted() -> dict[str, bytes]:
    return {key: body for key, body in FILES.items() if key.startswith("set/")}


def command_line(pid: int) -> str:
    """Its words, each with a NUL behind it."""
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_a_cold_mount_reads_the_right_bytes_and_umount_leaves_nothing(station: Workstation) -> None:
    station.mount()
    assert seen(station.data) == wanted()
    station.umount()
    assert not station.leftovers()


def test_a_warm_mount_is_native_and_the_next_fetches_nothing(station: Workstation, server: S3Server) -> None:
    assert "(native): 13 files" in station.mount("--warm")
    station.umount()
    before = len(server.gets("data"))
    events = [json.loads(line) for line in station.mount("--warm", "-o", "json").splitlines()]
    assert seen(station.data) == wanted()
    assert events[-1]["warm"]
    assert len(server.gets("data")) == before


def test_one_cache_folder_serves_different_sources_and_refuses_the_same_twice(station: Workstation) -> None:
    station.mount()
    (station.folder / "more").mkdir()
    again = station.run("mount", "s3://data/set", str(station.folder / "more"))
    other = station.run("mount", "s3://data/other", str(station.folder / "more"))
    assert again.returncode == 1
    assert f"is mounted at {station.data} already" in again.stderr
    assert other.returncode == 0, other.stderr
    assert (station.folder / "more" / "one.txt").read_bytes() == b"one"


def test_ctrl_c_in_the_foreground_unmounts_and_leaves_nothing(station: Workstation) -> None:
    process = station.start("mount", "s3://data/set", str(station.data), "--foreground")
    wait_until(lambda: bool(station.mode()), SECONDS)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    assert not station.leftovers()


def test_a_foreground_mount_ends_with_its_command_however_that_ends(station: Workstation) -> None:
    process = station.start("mount", "s3://data/set", str(station.data), "--foreground")
    wait_until(lambda: bool(station.mode()), SECONDS)
    keepers = station.processes()
    process.kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in keepers), SECONDS)
    assert not station.mode()


def test_what_a_killed_mount_left_is_cleared_by_the_next(station: Workstation) -> None:
    station.mount()
    station.kill()
    station.mount()
    assert seen(station.data) == wanted()
    station.kill()
    station.umount()
    assert not station.leftovers()


def test_readers_do_not_notice_that_the_agent_is_killed(station: Workstation) -> None:
    station.mount()
    (agent,) = [pid for pid in station.processes() if "\0stoker_sidecar.standalone.agent\0" in command_line(pid)]
    with (station.data / "large.bin").open("rb") as file:
        os.kill(agent, signal.SIGKILL)
        assert file.read() == FILES["set/large.bin"]


def test_umount_is_refused_while_a_program_reads_unless_it_is_forced(station: Workstation) -> None:
    station.mount()
    with (station.data / "large.bin").open("rb") as file:
        refused = station.run("umount", str(station.data))
        assert file.read() == FILES["set/large.bin"]
        forced = station.run("umount", str(station.data), "--force")
    assert (refused.returncode, forced.returncode) == (1, 0)
    assert f"({os.getpid()})" in refused.stderr
    assert not station.leftovers()


def test_a_folder_of_this_machine_is_mounted_and_no_link_out_of_it_is_followed(station: Workstation) -> None:
    source = station.folder / "a slow, old disk"
    source.mkdir()
    (source / "one").write_bytes(b"one")
    assert station.run("mount", f"file://{source}", str(station.data)).returncode == 0
    assert (station.data / "one").read_bytes() == b"one"
    station.umount()
    (source / "link").symlink_to("/etc/passwd")
    refused = station.run("mount", f"file://{source}", str(station.data))
    assert "link is reached by a symbolic link that leads out" in refused.stderr
    assert "Dataset" not in refused.stderr
    assert "chart" not in refused.stderr


def test_a_cache_folder_that_cannot_be_made_is_told_in_a_sentence(station: Workstation) -> None:
    station.cache.write_text("a file")
    done = station.run("mount", "s3://data/set", str(station.data))
    assert (done.returncode, station.leftovers()) == (1, [])
    assert done.stderr.endswith("cannot be written (Not a directory): give another by --cache\n")


def test_wrong_keys_are_told_in_a_sentence(server: S3Server) -> None:
    with Workstation(server, AWS_SECRET_ACCESS_KEY="wrong") as station:
        done = station.run("mount", "s3://data/set", str(station.data))
        assert (done.returncode, station.leftovers()) == (1, [])
        last = done.stderr.splitlines()[-1]
        assert last.startswith("stoker: ")
        assert "AWS_SECRET_ACCESS_KEY in the environment" in last


@pytest.mark.parametrize(
    ("url", "endpoint", "sentence"),
    [("s3://no-such-bucket/set", "", "no-such-bucket"), ("s3://data/set", "http://127.0.0.1:{port}", "{port}")],
)
def test_a_source_that_cannot_be_listed_is_told_in_a_sentence(
    station: Workstation, url: str, endpoint: str, sentence: str
) -> None:
    (port,) = free_ports(1)
    options = ["--endpoint", endpoint.format(port=port)] if endpoint else []
    done = station.run("mount", url, str(station.data), *options)
    assert (done.returncode, station.leftovers()) == (1, [])
    assert sentence.format(port=port) in done.stderr.splitlines()[-1]


@pytest.mark.usefixtures("fuse_for_all")
def test_a_user_without_privileges_mounts_at_a_folder_of_their_own(server: S3Server) -> None:
    with Workstation(server, uid=NOBODY) as station:
        station.mount("--warm")
        assert station.mode() == "fuse.stoker"
        read = subprocess.run(station.as_user("cat", str(station.data / "large.bin")), capture_output=True, check=True)
        assert read.stdout == FILES["set/large.bin"]
        station.umount()
        assert not station.leftovers()

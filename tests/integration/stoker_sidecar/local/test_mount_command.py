"""What a researcher at a workstation sees of `stoker mount`: on a real kernel, of a real S3 server."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.ports import free_ports
from tests.support.processes import is_running
from tests.support.s3 import S3Server
from tests.support.stoker_mount import SECONDS, StokerMount
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
FILES = {f"set/class-{number % 2}/{number:02}.bin": bytes([number]) * 20_000 for number in range(12)}
FILES |= {"set/large.bin": os.urandom(9 * 1024 * 1024), "other/one.txt": b"one"}
NOBODY = 65534


def seen(folder: Path) -> dict[str, bytes]:
    return {f"set/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def wanted() -> dict[str, bytes]:
    return {key: body for key, body in FILES.items() if key.startswith("set/")}


def command_line(pid: int) -> str:
    """Return the words of the process's command line, each with a NUL behind it."""
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_a_cold_mount_reads_the_right_bytes_and_umount_leaves_nothing(stoker: StokerMount) -> None:
    stoker.mount()
    assert seen(stoker.data) == wanted()
    stoker.umount()
    assert not stoker.leftovers()


def test_a_warm_mount_is_native_and_the_next_fetches_nothing(stoker: StokerMount, server: S3Server) -> None:
    assert "(native): 13 files" in stoker.mount("--warm")
    stoker.umount()
    before = len(server.gets("data"))
    events = [json.loads(line) for line in stoker.mount("--warm", "-o", "json").splitlines()]
    assert seen(stoker.data) == wanted()
    assert events[-1]["warm"]
    assert len(server.gets("data")) == before


def test_one_cache_folder_serves_different_sources_and_refuses_the_same_twice(stoker: StokerMount) -> None:
    stoker.mount()
    (stoker.folder / "more").mkdir()
    again = stoker.run("mount", "s3://data/set", str(stoker.folder / "more"))
    other = stoker.run("mount", "s3://data/other", str(stoker.folder / "more"))
    assert again.returncode == 1
    assert f"is mounted at {stoker.data} already" in again.stderr
    assert other.returncode == 0, other.stderr
    assert (stoker.folder / "more" / "one.txt").read_bytes() == b"one"


def test_ctrl_c_in_the_foreground_unmounts_and_leaves_nothing(stoker: StokerMount) -> None:
    process = stoker.start("mount", "s3://data/set", str(stoker.data), "--foreground")
    assert process.stderr is not None
    assert any(f"is mounted at {stoker.data}" in line for line in process.stderr)  # before that it ends with an error
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    assert not stoker.leftovers()


def test_a_foreground_mount_ends_with_its_command_however_that_ends(stoker: StokerMount) -> None:
    process = stoker.start("mount", "s3://data/set", str(stoker.data), "--foreground")
    wait_until(lambda: bool(stoker.mode()), SECONDS)
    keepers = stoker.processes()
    process.kill()
    wait_until(lambda: not any(is_running(pid) for pid in keepers), SECONDS)
    assert not stoker.mode()


def test_a_command_that_is_interrupted_before_its_keeper_listens_leaves_nothing(stoker: StokerMount) -> None:
    process = stoker.start("mount", "s3://data/set", str(stoker.data))
    wait_until(lambda: bool(stoker.processes()), SECONDS)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, stoker.leftovers()) == (1, []), said


def test_umount_ends_a_keeper_that_does_not_listen(stoker: StokerMount) -> None:
    stoker.mount()
    (socket,) = stoker.runs.glob("*/keeper.sock")
    socket.unlink()  # as a keeper that ends has it closed long before its processes are gone
    stoker.umount()
    assert not stoker.leftovers()


def test_what_a_killed_mount_left_is_cleared_by_the_next(stoker: StokerMount) -> None:
    stoker.mount()
    stoker.kill()
    stoker.mount()
    assert seen(stoker.data) == wanted()
    stoker.kill()
    stoker.umount()
    assert not stoker.leftovers()


def test_readers_do_not_notice_that_the_agent_is_killed(stoker: StokerMount) -> None:
    stoker.mount()
    (agent,) = [pid for pid in stoker.processes() if "\0stoker_sidecar.local.agent\0" in command_line(pid)]
    with (stoker.data / "large.bin").open("rb") as file:
        os.kill(agent, signal.SIGKILL)
        assert file.read() == FILES["set/large.bin"]


def test_umount_is_refused_while_a_program_reads_unless_it_is_forced(stoker: StokerMount) -> None:
    stoker.mount()
    with (stoker.data / "large.bin").open("rb") as file:
        refused = stoker.run("umount", str(stoker.data))
        assert file.read() == FILES["set/large.bin"]
        forced = stoker.run("umount", str(stoker.data), "--force")
    assert (refused.returncode, forced.returncode) == (1, 0)
    assert f"({os.getpid()})" in refused.stderr
    assert not stoker.leftovers()


def test_a_folder_of_this_machine_is_mounted_and_no_link_out_of_it_is_followed(stoker: StokerMount) -> None:
    source = stoker.folder / "a slow, old disk"
    source.mkdir()
    (source / "one").write_bytes(b"one")
    assert stoker.run("mount", f"file://{source}", str(stoker.data)).returncode == 0
    assert (stoker.data / "one").read_bytes() == b"one"
    stoker.umount()
    (source / "link").symlink_to("/etc/passwd")
    refused = stoker.run("mount", f"file://{source}", str(stoker.data))
    assert "link is reached by a symbolic link that leads out" in refused.stderr
    assert "Dataset" not in refused.stderr
    assert "chart" not in refused.stderr


def test_a_cache_folder_that_cannot_be_made_is_told_in_a_sentence(stoker: StokerMount) -> None:
    stoker.cache.write_text("a file")
    done = stoker.run("mount", "s3://data/set", str(stoker.data))
    assert (done.returncode, stoker.leftovers()) == (1, [])
    assert done.stderr.endswith("cannot be written (Not a directory): give another by --cache\n")


def test_wrong_keys_are_told_in_a_sentence(server: S3Server) -> None:
    with StokerMount(server, AWS_SECRET_ACCESS_KEY="wrong") as stoker:
        done = stoker.run("mount", "s3://data/set", str(stoker.data))
        assert (done.returncode, stoker.leftovers()) == (1, [])
        last = done.stderr.splitlines()[-1]
        assert last.startswith("stoker: ")
        assert "AWS_SECRET_ACCESS_KEY in the environment" in last


@pytest.mark.parametrize(
    ("url", "endpoint", "sentence"),
    [("s3://no-such-bucket/set", "", "no-such-bucket"), ("s3://data/set", "http://127.0.0.1:{port}", "{port}")],
)
def test_a_source_that_cannot_be_listed_is_told_in_a_sentence(
    stoker: StokerMount, url: str, endpoint: str, sentence: str
) -> None:
    (port,) = free_ports(1)
    options = ["--endpoint", endpoint.format(port=port)] if endpoint else []
    done = stoker.run("mount", url, str(stoker.data), *options)
    assert (done.returncode, stoker.leftovers()) == (1, [])
    assert sentence.format(port=port) in done.stderr.splitlines()[-1]


@pytest.mark.usefixtures("fuse_for_all")
def test_a_user_without_privileges_mounts_at_a_folder_of_their_own(server: S3Server) -> None:
    with StokerMount(server, uid=NOBODY) as stoker:
        stoker.mount("--warm")
        assert stoker.mode() == "fuse.stoker"
        read = subprocess.run(stoker.as_user("cat", str(stoker.data / "large.bin")), capture_output=True, check=True)
        assert read.stdout == FILES["set/large.bin"]
        stoker.umount()
        assert not stoker.leftovers()

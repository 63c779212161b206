"""A workstation user's view of `stoker mount`: on a real kernel, with a real S3 server."""

import json
import os
import signal
import subprocess
import sys
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
    socket.unlink()  # as an ending keeper closes it long before its processes are gone
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
    (agent,) = stoker.agents()
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


@pytest.mark.parametrize("warm", [(), ("--warm",)], ids=["cold", "native"])
def test_a_mount_that_ends_well_logs_no_warning(stoker: StokerMount, warm: tuple[str, ...]) -> None:
    stoker.mount(*warm)
    assert seen(stoker.data) == wanted()
    stoker.umount()
    assert not [line for line in stoker.log().splitlines() if "WARNING" in line or "ERROR" in line]


def test_a_copy_that_keeps_modes_can_be_deleted_by_its_owner(stoker: StokerMount) -> None:
    stoker.mount()
    copy = stoker.folder / "copy"
    subprocess.run(["cp", "-a", str(stoker.data), str(copy)], check=True)
    subprocess.run(["chown", "-R", str(NOBODY), str(copy)], check=True)
    stoker.folder.chmod(0o777)
    as_owner = ["setpriv", "--reuid", str(NOBODY), "--clear-groups", "rm", "-r"]
    subprocess.run([*as_owner, *map(str, copy.iterdir())], check=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("warm", [(), ("--warm",)], ids=["cold", "native"])
def test_umount_is_refused_while_a_container_reads(stoker: StokerMount, warm: tuple[str, ...]) -> None:
    stoker.mount(*warm)
    workspace = stoker.folder / "workspace"
    workspace.mkdir()
    reading = (
        f"import sys; f = open('{workspace}/large.bin', 'rb'); print(len(f.read(9)), flush=True); sys.stdin.read()"
    )
    script = f'mount --bind {stoker.data} {workspace}; exec "$0" -c "$1"'
    container = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, sys.executable, reading]
    with subprocess.Popen(container, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"9\n"
        refused = stoker.run("umount", str(stoker.data))
        reader.communicate()
    assert refused.returncode == 1
    assert f"({reader.pid})" in refused.stderr
    stoker.umount()
    assert not stoker.leftovers()


def test_a_source_that_the_system_unmounted_is_mounted_again(stoker: StokerMount) -> None:
    stoker.mount("--warm")
    _unmount_by_the_system(stoker)
    stoker.mount()
    assert seen(stoker.data) == wanted()
    stoker.umount()
    assert not stoker.leftovers()


def test_a_source_that_the_system_unmounted_is_mounted_elsewhere(stoker: StokerMount) -> None:
    stoker.mount("--warm")
    _unmount_by_the_system(stoker)
    (stoker.folder / "more").mkdir()
    other = stoker.run("mount", "s3://data/set", str(stoker.folder / "more"))
    assert (other.returncode, stoker.mode()) == (0, ""), other.stderr


def test_a_mount_that_the_system_unmounted_is_ended_by_stoker_umount(stoker: StokerMount) -> None:
    stoker.mount("--warm")
    _unmount_by_the_system(stoker)
    stoker.umount()
    assert not stoker.leftovers()


def test_a_source_that_a_container_still_reads_after_the_systems_umount_is_not_taken_from_it(
    stoker: StokerMount,
) -> None:
    stoker.mount()
    wait_until(lambda: stoker.mode() == "overlay", SECONDS)  # until then a new mount may start
    workspace = stoker.folder / "workspace"
    workspace.mkdir()
    script = f"mount --bind {stoker.data} {workspace}; cd {workspace}; echo ready; exec cat"
    container = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    with subprocess.Popen(container, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"ready\n"
        _unmount_by_the_system(stoker)
        refused = stoker.run("mount", "s3://data/set", str(stoker.data))
        reader.communicate()
    assert refused.returncode == 1
    assert f"cat ({reader.pid}) still reads it" in refused.stderr
    assert f"stoker umount {stoker.data} --force" in refused.stderr


def _unmount_by_the_system(stoker: StokerMount) -> None:
    while stoker.mode():
        subprocess.run(["umount", "--lazy", str(stoker.data)], check=True)


@pytest.mark.parametrize("words", [("mount", "s3://data/set"), ("umount",)], ids=["mount", "umount"])
def test_an_early_interrupt_ends_a_command_without_a_traceback(stoker: StokerMount, words: tuple[str, ...]) -> None:
    """An interrupt during Python's start is delivered when the program can handle it."""
    command = stoker.command(*words, str(stoker.data))
    blocked = ["-c", _INTERRUPTED, *command]
    done = subprocess.run([sys.executable, *blocked], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stderr, stoker.leftovers()) == (130, "", [])


# Runs a program with SIGINT pending and blocked, as between the programs `stoker` and `stoker_sidecar.local`.
_INTERRUPTED = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
os.kill(os.getpid(), signal.SIGINT)
os.execv(sys.argv[1], sys.argv[1:])
"""


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

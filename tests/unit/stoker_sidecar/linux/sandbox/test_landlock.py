"""A process confined to some files by Landlock, on the running kernel."""

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker_sidecar.linux.sandbox.confinement import Confinement, describe
from stoker_sidecar.linux.sandbox.landlock import READ, WRITE, PathRule, TcpAccess, abi, restrict, shortcoming

_NO = 13  # EACCES
pytestmark = pytest.mark.skipif(abi() < 6, reason="this kernel's Landlock is older than Linux 6.12")


def in_child(
    confined: Callable[[], object], attempt: Callable[[], object], meanwhile: Callable[[], object] = lambda: None
) -> int:
    """Return 0 if a confined child succeeds, else its errno.

    ``meanwhile``: runs in this process between the confinement and the attempt.
    """
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            confined()
            os.write(ready[1], b".")
            os.read(go[0], 1)
            attempt()
        except OSError as error:
            os._exit(error.errno or 255)
        except BaseException:  # noqa: BLE001 -- the child must not go on as pytest
            os._exit(254)
        os._exit(0)
    os.close(ready[1])
    os.read(ready[0], 1)
    meanwhile()
    os.write(go[1], b".")
    for end in (ready[0], *go):
        os.close(end)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for name in ("readable", "writable", "other"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "file").write_bytes(b"content")
    return tmp_path


def _held(folders: Path) -> Callable[[], None]:
    rules = [PathRule(str(folders / "readable"), READ), PathRule(str(folders / "writable"), WRITE)]
    return lambda: restrict(rules, no_tcp=TcpAccess.BIND | TcpAccess.CONNECT)


@pytest.mark.parametrize(
    ("attempt", "allowed"),
    [
        (lambda top: (top / "readable" / "file").read_bytes(), True),
        (lambda top: list((top / "readable" / "inner").iterdir()), True),
        (lambda top: (top / "readable" / "new").touch(), False),
        (lambda top: (top / "readable" / "file").unlink(), False),
        (lambda top: os.truncate(top / "readable" / "file", 0), False),
        (lambda top: (top / "writable" / "inner" / "new").write_bytes(b"x"), True),
        (lambda top: (top / "writable" / "file").rename(top / "writable" / "inner" / "moved"), True),
        (lambda top: (top / "writable" / "file").rename(top / "other" / "moved"), False),
        (lambda top: os.mkfifo(top / "writable" / "pipe"), False),
        (lambda top: (top / "writable" / "link").symlink_to("/etc"), False),
        (lambda top: (top / "other" / "file").read_bytes(), False),
        (lambda top: list((top / "other").iterdir()), False),
        (lambda top: Path("/etc/shadow").read_bytes(), False),
        (lambda top: Path("/proc/1/environ").read_bytes(), False),
    ],
)
def test_a_held_process_has_what_its_rules_allow(
    folders: Path, attempt: Callable[[Path], object], allowed: bool
) -> None:
    assert in_child(_held(folders), lambda: attempt(folders)) in ([0] if allowed else [_NO, 18])  # EXDEV of a rename


def test_a_link_gives_no_right_to_what_it_leads_to(folders: Path) -> None:
    (folders / "readable" / "link").symlink_to(folders / "other" / "file")
    assert in_child(_held(folders), (folders / "readable" / "link").read_bytes) == _NO


def test_a_held_process_asks_no_one_by_tcp(folders: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        assert in_child(_held(folders), lambda: socket.create_connection(address)) == _NO


def test_a_held_process_cannot_send_signals_to_others(folders: Path) -> None:
    parent = os.getpid()
    assert in_child(_held(folders), lambda: os.kill(parent, signal.SIGCONT)) == 1


@pytest.mark.root
def test_a_folder_that_its_user_may_not_enter_is_left_out(folders: Path) -> None:
    """An example is root's home, which is the HOME of the fetcher in a container."""
    (folders / "other").chmod(0o700)
    rules = [PathRule(str(folders / "other" / "inner"), READ), PathRule("/usr", READ)]

    def held() -> None:
        os.setuid(65532)
        restrict(rules, no_tcp=TcpAccess.BIND)

    assert in_child(held, lambda: list(Path("/usr").iterdir())) == 0


def test_what_is_open_stays_open(folders: Path) -> None:
    with (folders / "other" / "file").open("rb") as file:
        assert in_child(_held(folders), lambda: os.pread(file.fileno(), 7, 0)) == 0


@pytest.mark.parametrize(
    ("change", "outdated"),
    [
        (lambda top: None, 0),
        (lambda top: (top / "cache").rmdir(), 0),  # it may return
        (lambda top: ((top / "cache").rename(top / "old"), (top / "cache").mkdir()), 1),
        (lambda top: (top / "later").mkdir(), 1),
    ],
)
def test_a_confinement_knows_when_a_folder_is_another_one(
    tmp_path: Path, change: Callable[[Path], object], outdated: int
) -> None:
    (tmp_path / "cache").mkdir()
    confinement = Confinement([str(tmp_path / "later")], [str(tmp_path / "cache")])
    found = in_child(
        lambda: confinement.begin(no_tcp=TcpAccess.BIND),
        lambda: os._exit(confinement.is_outdated()),
        lambda: change(tmp_path),
    )
    assert found == outdated


def test_a_fact_of_the_kernel_with_another_inode_number_outdates_nothing(tmp_path: Path) -> None:
    fact, anew = tmp_path / "meminfo", tmp_path / "anew"
    fact.touch()
    anew.touch()
    confinement = Confinement([str(fact)])
    confinement.take_note()
    anew.rename(fact)  # as in /proc after the kernel has dropped the name
    assert not confinement.is_outdated()


@pytest.mark.parametrize(("found", "words"), [(0, "has no Landlock"), (1, "version 1) is too old")])
def test_a_kernel_that_cannot_says_why(found: int, words: str) -> None:
    assert words in shortcoming(found)


@pytest.mark.parametrize("found", [2, 3, 5, 7, 9])
def test_kernels_since_renames_between_folders_can(found: int) -> None:
    assert shortcoming(found) == ""


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [(7, True, "Landlock, version 7"), (0, True, "None: this kernel has no"), (7, False, "None: it is turned off")],
)
def test_people_are_told_what_holds_a_nodes_processes(found: int, wanted: bool, said: str) -> None:
    assert describe(found, wanted=wanted).startswith(said)

"""The real plug-in process, started by a real keeper: the rights of plug-ins, and their remains."""

import errno
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_plugins.framework_question import FileHead
from stoker_sidecar.linux.sandbox import landlock
from stoker_tuning.frameworks.answers import parse_answer
from tests.support.asked_plugins import AskingNode, asking_node, with_open_python, write_plugin
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.expected_logs("")]
NAMES = ("pytorch", "good", "raises", "ends", "leaves", "tries", "kills", "hangs", "absent")
held = pytest.mark.skipif(bool(landlock.shortcoming(landlock.abi())), reason="this kernel's Landlock holds nobody")
_TRIES = """
import errno, os, socket, subprocess
def attempt(work, *arguments):
    try:
        work(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "may"
def connect(port):
    with socket.socket() as connection:
        connection.connect(("127.0.0.1", port))
def write(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
def read(path):
    os.close(os.open(path, os.O_RDONLY))
class Plugin:
    name = "tries"
    def detect(self, path, head):
        port, folder = int(head.split()[0]), head.split()[1].decode()
        met = [attempt(connect, port), attempt(write, folder + "/written"), attempt(read, "/etc/shadow")]
        met += [attempt(read, folder + "/secret"), attempt(subprocess.run, ["/bin/true"])]
        met += [attempt(os.kill, os.getppid(), 0), attempt(read, "/proc/%d/environ" % os.getppid())]
        met += ["AWS_SECRET_ACCESS_KEY" in os.environ]
        raise ValueError(" ".join(map(str, met)))
    def hints(self, context): return {}
    def default_rules(self): return []
    def default_templates(self): return []
"""
_LEAVES = """
def detect(self, path, head):
    import os, time
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(writing, b"%d" % os.getpid())
            os.closerange(3, 1000)
            time.sleep(1000)
        os._exit(0)
    raise ValueError(os.read(reading, 20).decode())
"""


@pytest.fixture(scope="module")
def node() -> Iterator[AskingNode]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
        with asking_node(NAMES) as node:
            write_plugin(node.site, "good")
            write_plugin(node.site, "raises", "def detect(self, path, head): raise KeyError('x')")
            write_plugin(node.site, "ends", "def detect(self, path, head): import os; os.abort()")
            write_plugin(node.site, "hangs", "def detect(self, path, head):\n    while True: pass")
            write_plugin(
                node.site, "kills", "def detect(self, path, head): import os, signal; os.kill(os.getppid(), 9)"
            )
            write_plugin(node.site, "leaves", _LEAVES)
            write_plugin(node.site, "tries", module=_TRIES)
            yield node


def test_each_tells_its_own_or_why_it_is_left_out_and_the_others_are_asked(node: AskingNode) -> None:
    asked = node.ask(["pytorch", "raises", "ends", "absent", "good"])
    told = {one.name: one for one in asked.told}
    assert asked.trouble == ""
    assert parse_answer("good", told["good"].said, 1).confidences == (0.5,)
    assert told["good"].origin == "stoker-good 1"
    assert b"KeyError" in told["raises"].said
    assert told["ends"].refused == "its process ended without an answer"
    assert told["absent"].refused.startswith("it is not installed in this image")


def test_one_that_hangs_is_ended_and_nobody_waits_for_it_but_who_asked(node: AskingNode) -> None:
    began = time.monotonic()
    asked = node.ask(["hangs", "good"])
    assert time.monotonic() - began < 30
    assert [one.refused for one in asked.told] == ["", "it did not answer within 5 s"]


def test_no_asker_runs_while_nobody_asks(node: AskingNode) -> None:
    node.ask(["good"])
    wait_until(lambda: node.asker is None)


def test_what_a_plug_in_leaves_behind_is_ended(node: AskingNode) -> None:
    (told,) = node.ask(["leaves"]).told
    assert not told.refused, told
    pid = int(told.said.split(b"ValueError: ")[1].rstrip(b'"}'))
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


@held
def test_a_plug_in_reads_pythons_folders_writes_nothing_runs_nothing_and_has_no_tcp(node: AskingNode) -> None:
    folder = node.keeper.folder
    (folder / "secret").write_bytes(b"of another team")
    with socket.create_server(("127.0.0.1", 0)) as server:
        head = f"{server.getsockname()[1]} {folder}".encode()
        (told,) = node.ask(["tries"], [FileHead("a", head)]).told
    met = told.said.decode().split("ValueError: ")[1].rstrip('"}').split()
    tcp = "EACCES" if landlock.abi() >= 4 else "may"
    signals = "EPERM" if landlock.abi() >= 6 else "may"
    assert met == [tcp, "EACCES", "EACCES", "EACCES", "EACCES", signals, "EACCES", "False"]
    assert errno.errorcode[errno.EACCES] == "EACCES"


@pytest.mark.skipif(landlock.abi() < 6, reason="before Linux 6.12 a process may signal others of its user")
def test_a_plug_in_does_not_end_the_asker(node: AskingNode) -> None:
    asked = node.ask(["kills", "good"])
    assert [one.name for one in asked.told] == ["good", "kills"]
    assert b"PermissionError" in asked.told[1].said


def test_a_node_without_plug_ins_has_no_such_socket() -> None:
    with asking_node([]) as without:
        assert not (without.keeper.run_dir / "asker.sock").exists()
        assert without.ask(["pytorch"]).told == ()


def test_plug_ins_run_as_a_user_that_owns_nothing_and_has_no_capabilities(tmp_path: Path) -> None:
    body = "def detect(self, path, head): import os; raise ValueError(f'{os.getuid()} {os.getgroups()}')"
    with asking_node(["who"], user="65531", within=with_open_python(tmp_path)) as node:
        write_plugin(node.site, "who", body)
        (told,) = node.ask(["who"]).told
    assert b"65531 []" in told.said

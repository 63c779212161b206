"""Order plug-ins and a real plug-in process: orders arrive complete, and wrong answers are refused."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_orders.predictors.interface import OrderQuestion
from stoker_plugins.order_questions import LoadQuestion
from stoker_sidecar.linux.sandbox import landlock
from stoker_sidecar.wire.plugins_protocol import ToldAnswer
from stoker_tuning.frameworks.answers import PluginRefusedError
from tests.support.asked_plugins import (
    AskingNode,
    asking_node,
    install_example,
    with_open_python,
    write_order_plugin,
)

pytestmark = [pytest.mark.root, pytest.mark.expected_logs("")]
NAMES = ("good", "raises", "ends", "greedy", "lies", "tries", "broken", "orderless", "absent", "numpy-legacy")
held = pytest.mark.skipif(bool(landlock.shortcoming(landlock.abi())), reason="this kernel's Landlock holds nobody")
ASKED = OrderQuestion(1000, seed=3, parameters=(("a", "b"),))
_TRIES = """
def order(self, asked):
    import errno, os, socket, subprocess
    def attempt(work, *arguments):
        try:
            work(*arguments)
        except OSError as error:
            return errno.errorcode[error.errno]
        return "may"
    def open_as(path, flags):
        os.close(os.open(path, flags, 0o600))
    def connect(port):
        with socket.socket() as connection:
            connection.connect(("127.0.0.1", port))
    folder, port = asked["parameters"]["folder"], int(asked["parameters"]["port"])
    met = [attempt(connect, port), attempt(open_as, folder + "/written", os.O_WRONLY | os.O_CREAT)]
    met += [attempt(open_as, folder + "/secret", os.O_RDONLY), attempt(subprocess.run, ["/bin/true"])]
    met += [attempt(open_as, "/proc/%d/environ" % os.getppid(), os.O_RDONLY), "AWS_SECRET_ACCESS_KEY" in os.environ]
    raise ValueError(" ".join(map(str, met)))
"""


@pytest.fixture(scope="module")
def node() -> Iterator[AskingNode]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
        with asking_node([], orders=NAMES) as node:
            write_order_plugin(node.site, "good")
            write_order_plugin(node.site, "raises", "def order(self, asked): raise KeyError('x')")
            write_order_plugin(node.site, "ends", "def order(self, asked): import os; os.abort()")
            write_order_plugin(node.site, "greedy", "def order(self, asked): return bytearray(10**9)")
            write_order_plugin(node.site, "lies", "def order(self, asked): return [asked['samples']]")
            write_order_plugin(node.site, "tries", _TRIES)
            write_order_plugin(node.site, "broken", "import no_such_package")
            write_order_plugin(node.site, "orderless", "order = 3")
            install_example(node.site, "order_plugin")
            yield node


def test_an_order_of_more_than_a_million_samples_comes_whole(node: AskingNode) -> None:
    order = node.order("numpy-legacy", OrderQuestion(1_300_000, seed=3, epoch=1, ranks=8))
    assert len(order) == len(set(order)) == 1_300_000
    assert list(order[:3]) != [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("raises", "it failed: KeyError"),
        ("ends", "its process ended without an answer"),
        ("greedy", "it failed: MemoryError"),
        ("lies", "its order has sample 1000 of 1000"),
        ("absent", "it is not installed in this image"),
        ("other", "the asker ended early while it was asked"),  # the keeper does not know this plug-in
    ],
)
def test_one_that_is_wrong_is_refused_and_the_next_one_is_asked(node: AskingNode, name: str, sentence: str) -> None:
    with pytest.raises(PluginRefusedError, match=sentence):
        node.order(name, ASKED)
    assert list(node.order("good", ASKED)) == list(range(1000))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("absent", "it is not installed in this image"),
        ("broken", "it failed: ModuleNotFoundError: No module named 'no_such_package'"),
        ("orderless", "it failed: TypeError: its order is no method"),
    ],
)
def test_one_that_cannot_be_loaded_is_told_before_a_job_asks_it(node: AskingNode, name: str, sentence: str) -> None:
    told = node.look(name)
    with pytest.raises(PluginRefusedError, match=sentence):
        check_told(told)


def test_one_that_can_be_loaded_is_told_with_its_package_and_asked_for_nothing(node: AskingNode) -> None:
    for name, package in (("numpy-legacy", "stoker-numpy-legacy 0.1.0"), ("raises", "stoker-raises 1")):
        told = node.look(name)
        check_told(told)
        assert told.origin == package


def check_told(told: ToldAnswer) -> None:
    if told.refused:
        raise PluginRefusedError(told.refused)
    assert LoadQuestion().read(told.name, told.said)


@held
def test_an_order_plug_in_reads_pythons_folders_writes_nothing_runs_nothing_and_has_no_tcp(node: AskingNode) -> None:
    folder = node.keeper.folder
    (folder / "secret").write_bytes(b"of another team")
    with socket.create_server(("127.0.0.1", 0)) as server:
        said = (("folder", str(folder)), ("port", str(server.getsockname()[1])))
        with pytest.raises(PluginRefusedError) as refused:
            node.order("tries", OrderQuestion(10, parameters=said))
    tcp = "EACCES" if landlock.abi() >= 4 else "may"
    assert str(refused.value) == f"it failed: ValueError: {tcp} EACCES EACCES EACCES EACCES False"


def test_order_plug_ins_run_as_a_user_that_owns_nothing(tmp_path: Path) -> None:
    body = "def order(self, asked): import os; raise ValueError(f'{os.getuid()} {os.getgroups()}')"
    with asking_node([], user="65531", within=with_open_python(tmp_path), orders=["who"]) as node:
        write_order_plugin(node.site, "who", body)
        with pytest.raises(PluginRefusedError, match=r"65531 \[\]"):
            node.order("who", ASKED)

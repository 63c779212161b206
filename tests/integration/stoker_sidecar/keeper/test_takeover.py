"""A keeper hands its mounts to the keeper of the next pod, without effect on readers.

After any failure, one of them serves.
"""

import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stoker_sidecar.keeper.takeover import messages
from stoker_sidecar.linux import packets
from tests.support.keeper import SECONDS, Keeper, clear_mounts, mounts_below
from tests.support.readers import VerifyingReaders
from tests.support.versions import VersionFolder, small_files
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
_TAKEOVERS = 8
STANDS_BY = "waiting for its end"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "node"
    folder.mkdir()
    yield folder
    clear_mounts(folder)


@pytest.fixture
def version(tmp_path: Path) -> VersionFolder:
    made = VersionFolder(tmp_path / "v", small_files())
    made.finish_all()
    return made


class _TestKeeper:
    """A keeper of the test that requests the mounts."""

    def __init__(self, node: Path, protocol: int = messages.PROTOCOL) -> None:
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(SECONDS)
        self.connection.connect(str(node / "state" / "keeper.sock"))
        (node / "state" / "keepers.json").write_text('["older", "me"]')
        packets.send(self.connection, messages.hello(messages.Hello("me", protocol)))
        self.answer = messages.kind_of(packets.receive(self.connection)[0])

    def take(self) -> int:
        """Receive the offer and its mounts, and close them. Return their number."""
        offer = messages.parse_offer(packets.receive(self.connection)[0])
        for _ in range(offer.mounts):
            packets.close_all(packets.receive(self.connection)[1])
        return offer.mounts


def test_no_read_fails_through_many_upgrades(node: Path, tmp_path: Path, version: VersionFolder) -> None:
    with ExitStack() as keepers:
        keeper = keepers.enter_context(Keeper(tmp_path / "0", node=node))
        with VerifyingReaders(keeper.serve(version), version.files) as readers:
            for number in range(1, _TAKEOVERS + 1):
                before = readers.reads
                successor = keepers.enter_context(Keeper(tmp_path / str(number), node=node))
                readers.wait_for(4, since=before)
                assert keeper.stop() == 0
                keeper = successor
    assert readers.wrong == []


def test_the_mount_stays_the_same(node: Path, tmp_path: Path, version: VersionFolder) -> None:
    with Keeper(tmp_path / "a", node=node) as older:
        older.serve(version)
        before = mounts_below(node)
        with Keeper(tmp_path / "b", node=node) as newer:
            assert older.stop() == 0
            assert mounts_below(node) == before
            assert newer.server()["ready"]


def test_a_successor_that_dies_half_way_leaves_the_mounts_to_its_predecessor(
    node: Path, tmp_path: Path, version: VersionFolder
) -> None:
    with Keeper(tmp_path / "k", node=node, identity="older") as older:
        mountpoint = older.serve(version)
        newer = _TestKeeper(node)
        assert newer.take() == 1
        newer.connection.close()
        assert (mountpoint / "d2/59").read_bytes() == version.files["d2/59"]


def test_an_upgrade_that_is_rolled_back_returns_the_mounts_to_the_older_keeper(
    node: Path, tmp_path: Path, version: VersionFolder
) -> None:
    with Keeper(tmp_path / "a", node=node) as older:
        mountpoint = older.serve(version)
        before = mounts_below(node)
        with Keeper(tmp_path / "b", node=node) as newer:
            wait_until(lambda: older.logged(STANDS_BY))
            assert newer.stop() == 0
            wait_until(lambda: older.serves)
            assert (mountpoint / "d2/59").read_bytes() == version.files["d2/59"]
            assert mounts_below(node) == before


def test_an_older_keeper_steps_in_when_the_newer_is_killed(node: Path, tmp_path: Path, version: VersionFolder) -> None:
    with Keeper(tmp_path / "a", node=node) as older:
        older.serve(version)
        with Keeper(tmp_path / "b", node=node) as newer:
            wait_until(lambda: older.logged(STANDS_BY))
            newer.kill()
            wait_until(lambda: older.serves)
            assert (older.serve(version) / "d2/59").read_bytes() == version.files["d2/59"]


def test_an_older_keeper_that_starts_again_steals_nothing(node: Path, tmp_path: Path, version: VersionFolder) -> None:
    with Keeper(tmp_path / "a", node=node, identity="older") as older:
        older.serve(version)
        with Keeper(tmp_path / "b", node=node) as newer:
            older.stop()
            again = Keeper(tmp_path / "c", node=node, identity="older")
            again.launch()
            wait_until(lambda: again.logged(STANDS_BY))
            assert newer.server()["ready"]
            assert again.stop() == 0


def test_keepers_of_different_protocols_hand_over_the_node_without_its_mounts(
    node: Path, tmp_path: Path, version: VersionFolder
) -> None:
    with Keeper(tmp_path / "k", node=node, identity="older") as older:
        older.serve(version)
        newer = _TestKeeper(node, protocol=99)
        assert newer.take() == 0
        assert mounts_below(node) == []
        packets.send(newer.connection, messages.word(messages.SERVING))
        assert messages.kind_of(packets.receive(newer.connection)[0]) == messages.YOURS
        newer.connection.close()


def test_the_old_agent_ends_before_the_new_one_begins(node: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Keeper(tmp_path / "a", node=node, agent=_agent("old", log)):
        wait_until(log.exists)
        with Keeper(tmp_path / "b", node=node, agent=_agent("new", log)):
            wait_until(lambda: "new begins" in log.read_text())
    assert log.read_text().splitlines()[:3] == ["old begins", "old ends", "new begins"]


def test_the_socket_of_the_keepers_is_their_users_alone(node: Path, tmp_path: Path) -> None:
    with Keeper(tmp_path / "k", node=node):
        assert (node / "state" / "keeper.sock").stat().st_mode & 0o777 == 0o600


def _agent(name: str, log: Path) -> str:
    """Return a command that acts like an agent: it waits until the keeper lets it start."""
    program = (
        "import signal, sys\n"
        "from stoker_sidecar.wire.heartbeat import Heartbeat\n"
        "def say(what):\n"
        f"    with open({str(log)!r}, 'a') as log: log.write({name!r} + ' ' + what + '\\n')\n"
        "Heartbeat(int(sys.argv[sys.argv.index('--heartbeat-fd') + 1])).wait_to_begin()\n"
        "def end(*_):\n"
        "    say('ends'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "say('begins')\n"
        "while True: signal.pause()\n"
    )
    return shlex.join([sys.executable, "-c", program])

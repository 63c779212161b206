"""The files that fetcher, workers and FUSE servers may open on the real kernel, as root: only Landlock limits them."""

import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from errno import EACCES, EPERM
from pathlib import Path

import pytest

from stoker_api.datasets.dataset_source import Source
from tests.support.agentless_node import AgentlessNode, NodeVersion
from tests.support.csi_driver import node_folder
from tests.support.keeper import Keeper
from tests.support.process_probe import ProcessProbe
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.expected_logs("")]
_FETCHER = [sys.executable, "-m", "stoker_sidecar.fetcher.main", "--floor-bytes=0", "--workers=1"]


@dataclass
class ConfinedNode:
    """A node whose processes report their access. ``folder`` has the files under test."""

    folder: Path
    node: AgentlessNode
    probe: ProcessProbe
    version: NodeVersion

    def met(self, pid: int) -> dict[str, int]:
        """Query a process. Return the result of each attempt, without paths below the folder and other numbers."""
        met = self.probe.ask(pid, self.node.keeper.log)
        return {key.replace(f"{self.folder}/", "").rstrip("0123456789"): code for key, code in met.items()}

    @property
    def fetcher(self) -> int:
        return self.process("fetcher")

    def process(self, name: str) -> int:
        """Return the keeper's child of that name."""
        rows = self.node.keeper.call(op="list")["children"]
        return next(int(row["pid"]) for row in rows if row["name"] == name)

    def child(self, name: str) -> int:
        """Return the fetcher's child of that name."""
        listed = Path(f"/proc/{self.fetcher}/task/{self.fetcher}/children").read_text().split()
        return next(int(pid) for pid in listed if Path(f"/proc/{pid}/comm").read_text().strip() == name)


@pytest.fixture(scope="module")
def confined() -> Iterator[ConfinedNode]:
    with ExitStack() as stack:
        folder = stack.enter_context(node_folder())
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for name in ("granted", "other", "kubelet/pods/volumes", "cache", "temporary"):
            (folder / name).mkdir(parents=True)
        (folder / "granted" / "file").write_bytes(b"content")
        (folder / "other" / "secret").write_bytes(b"of another team")
        attempts = [
            *(
                ("read", f"{folder}/{name}")
                for name in ("granted/file", "other/secret", "kubelet/pods", "cache", "state")
            ),
            *(("read", path) for path in ("/etc/shadow", "/etc/hosts", "/proc/1/environ", f"/proc/{os.getpid()}/fd")),
            *(("write", f"{folder}/{name}") for name in ("granted", "other", "cache", "run", "state/reports")),
            ("signal", str(os.getpid())),
            ("connect", str(server.getsockname()[1])),
        ]
        probe = ProcessProbe(attempts, folder / "code")
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in {**probe.environment(), "TMPDIR": f"{folder}/temporary"}.items():
            patch.setenv(name, value)
        command = shlex.join([*_FETCHER, f"--host-folder={folder}/granted"])
        (folder / "state").mkdir()
        reports = ["--reports", "On", "--state-dir", str(folder / "state")]
        # With an agent there is an observer. This agent does nothing.
        keeper = Keeper(folder, fetcher=command, agent="sleep 1000", options=reports)
        node = AgentlessNode(stack.enter_context(keeper))
        version = node.list_source("u1", Source(uri=f"file://{folder}/granted"))
        node.hand_out(version)
        yield ConfinedNode(folder, node, probe, version)


_FORBIDDEN = {
    "read other/secret": EACCES,
    "read kubelet/pods": EACCES,
    "read state": EACCES,
    "read /etc/shadow": EACCES,
    "read /etc/hosts": 0,
    "read /proc/1/environ": EACCES,
    "write granted": EACCES,
    "write other": EACCES,
    "write state/reports": EACCES,
    "signal ": EPERM,
}
_FETCHER_MAY = {"read granted/file": 0, "read cache": 0, "write cache": 0, "write run": 0, "connect ": 0}
_SERVER_MAY = {
    "read granted/file": EACCES,
    "read cache": 0,
    "write cache": EACCES,
    "write run": EACCES,
    "connect ": EACCES,
}
_LISTENER_MAY = {
    "read granted/file": EACCES,
    "read cache": EACCES,
    "write cache": EACCES,
    "write run": 0,
    "write state/reports": 0,
    "connect ": EACCES,
}


def _without_proc_of_the_test(met: dict[str, int]) -> dict[str, int]:
    own = [key for key in met if key.startswith("read /proc/") and key.endswith("/fd")]
    assert [met.pop(key) for key in own] == [EACCES]
    return met


def test_the_fetcher_opens_its_caches_and_granted_folders_alone(confined: ConfinedNode) -> None:
    assert _without_proc_of_the_test(confined.met(confined.fetcher)) == _FORBIDDEN | _FETCHER_MAY


@pytest.mark.parametrize("name", ["stoker-worker", "stoker-zygote"])
def test_the_fetchers_children_open_what_it_may(confined: ConfinedNode, name: str) -> None:
    met = _without_proc_of_the_test(confined.met(confined.child(name)))
    assert met == _FORBIDDEN | _FETCHER_MAY


def test_a_fuse_server_only_reads_and_only_the_caches(confined: ConfinedNode) -> None:
    confined.node.mount(confined.version)
    pid = int(confined.node.keeper.call(op="list")["servers"][0]["pid"])
    assert _without_proc_of_the_test(confined.met(pid)) == _FORBIDDEN | _SERVER_MAY


def test_the_report_listener_writes_where_pods_report_and_reads_nothing_else(confined: ConfinedNode) -> None:
    met = _without_proc_of_the_test(confined.met(confined.process("report listener")))
    assert met == _FORBIDDEN | _LISTENER_MAY


def test_the_observer_only_reads_and_only_the_caches(confined: ConfinedNode) -> None:
    rows = confined.node.keeper.call(op="list")["children"]
    pid = next(int(row["pid"]) for row in rows if row["name"] == "observer")
    wait_until(lambda: "NoNewPrivs:\t1" in Path(f"/proc/{pid}/status").read_text())
    assert _without_proc_of_the_test(confined.met(pid)) == _FORBIDDEN | _SERVER_MAY


def test_cold_bytes_are_read_and_kept(confined: ConfinedNode) -> None:
    mounted = confined.node.mount(confined.version)
    assert (mounted / "file").read_bytes() == b"content"
    wait_until((confined.version.paths.tree / "file").exists)


def test_a_cache_folder_that_was_made_anew_is_used_and_no_reader_gets_an_error() -> None:
    with node_folder() as folder, pytest.MonkeyPatch.context() as patch:
        for name in ("granted", "temporary"):
            (folder / name).mkdir()
        for name in ("cached", "cold"):
            (folder / "granted" / name).write_bytes(name.encode())
        patch.setenv("TMPDIR", f"{folder}/temporary")
        source = Source(uri=f"file://{folder}/granted")
        command = shlex.join([*_FETCHER, f"--host-folder={folder}/granted"])
        with Keeper(folder, fetcher=command) as keeper:
            node = AgentlessNode(keeper)
            version = node.list_source("u1", source)
            node.hand_out(version)
            mounted = node.mount(version)
            assert (mounted / "cached").read_bytes() == b"cached"
            (folder / "cache").rename(folder / "old")
            (folder / "cache").mkdir()  # as the agent does for an ended one
            node.hand_out(node.list_source("u1", source, "2"))
            assert [(mounted / name).read_bytes() for name in ("cold", "cached")] == [b"cold", b"cached"]
            assert keeper.logged("the fetcher ends, to be started with a right to it")

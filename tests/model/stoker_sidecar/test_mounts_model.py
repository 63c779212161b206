"""Random operations on a mounted version against plain dictionaries.

Each kind of mount, swaps, kills, and a source that changes.

Everything is real: keeper, fetcher and its workers, FUSE server, overlay, binds. After any events, a read returns right
bytes, or an errno that the model allows. It never returns zeros or a mix of two versions.
"""

import errno
import itertools
import os
import shutil
import signal
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from stoker_api.datasets.dataset import MountMode
from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from tests.support.agentless_node import FETCHER, AgentlessNode, NodeVersion
from tests.support.byte_reads import Got, read_fd, read_path
from tests.support.csi_driver import node_folder
from tests.support.dataset_model import SourceFolder, VersionModel
from tests.support.keeper import SECONDS, Keeper
from tests.support.pod_volume import PodVolume
from tests.support.waiting import wait_until

# The test kills processes at random, so it does not judge the node's log records.
pytestmark = [pytest.mark.root, pytest.mark.expected_logs("")]
FUSE, OVERLAY, NATIVE = MountMode.FUSE, MountMode.OVERLAY, MountMode.NATIVE
# Around a page, around the kernel's readahead, and two whole chunks with a bit of a third.
_SIZES = {
    "empty": 0,
    "a/one": 1,
    "a/page-": 4095,
    "a/page": 4096,
    "a/b/page+": 4097,
    "a/\u00e9 \n": 140_000,
    "large": 2 * CHUNK + 5,
}
FILES = {path: bytes(range(1, 252)) * (size // 251) + b"e" * (size % 251) for path, size in _SIZES.items()}
_CHANGED = b"X"
_DEAD = frozenset({errno.ENOTCONN, errno.ECONNABORTED, errno.EIO, errno.EFAULT})
_PICK = st.integers(0, len(FILES) - 1)
_OFFSET = st.sampled_from([0, 1, 4090, 130_000, CHUNK - 3, CHUNK, 2 * CHUNK])
_LENGTH = st.sampled_from([1, 10, 5000, 300_000, 3 * CHUNK])
_VICTIMS = st.sampled_from(["server", "fetcher", "all but the keeper", "all"])


# A kill costs a second or two. Not shrunk: real processes do not repeat exactly.
_FEW = settings(
    stateful_step_count=15,
    deadline=None,
    phases=[Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


class MountMachine(RuleBasedStateMachine):
    """A pod reads one version.

    ``first`` is its initial mount. ``swaps`` is whether it ever gets a better one.
    """

    numbers = itertools.count()

    def __init__(self, node: AgentlessNode, first: MountMode, *, swaps: bool) -> None:
        super().__init__()
        self.node = node
        self.first = first
        self.swaps = swaps
        self.uid = f"u{next(self.numbers)}"
        self.folder = node.keeper.folder / self.uid
        self.volume = PodVolume(node, {FUSE, first, NATIVE} if not swaps else set(MountMode))
        self.opened: list[tuple[str, int, bool]] = []  # path, descriptor, whether a process that it needs may have died

    @initialize()
    def begin(self) -> None:
        self.source = SourceFolder(self.folder, FILES)
        self.listings = itertools.count(1)
        self._take_what_the_source_has()

    def _take_what_the_source_has(self) -> None:
        source = Source(uri=f"file://{self.source.folder}")
        self.version: NodeVersion = self.node.list_source(self.uid, source, str(next(self.listings)))
        self.model = VersionModel(self.source)
        self.node.hand_out(self.version)
        if self.first is NATIVE:
            self._warm()
        self.volume.publish(self.version)
        if self.first is OVERLAY:
            self.volume.settle()

    def _path(self, pick: int) -> str:
        return sorted(self.model.files)[pick % len(self.model.files)]

    @rule(pick=_PICK, offset=_OFFSET, length=_LENGTH, cold=st.booleans(), mapped=st.booleans())
    def read(self, pick: int, offset: int, length: int, cold: bool, mapped: bool) -> None:
        path = self._path(pick)
        got = read_path(self.volume.target / path, offset, length, cold=cold, mapped=mapped)
        self.model.check(path, offset, length, got)

    @rule(pick=_PICK)
    def read_whole(self, pick: int) -> None:
        self._check_whole(self._path(pick))

    def _check_whole(self, path: str) -> None:
        self.model.check(path, 0, 3 * CHUNK, read_path(self.volume.target / path, 0, 3 * CHUNK, cold=True))

    @rule(pick=_PICK)
    def open(self, pick: int) -> None:
        path = self._path(pick)
        self.opened.append((path, os.open(self.volume.target / path, os.O_RDONLY), False))

    @precondition(lambda self: self.opened)
    @rule(pick=_PICK, offset=_OFFSET, length=_LENGTH, cold=st.booleans(), mapped=st.booleans())
    def read_what_is_open(self, pick: int, offset: int, length: int, cold: bool, mapped: bool) -> None:
        path, fd, perhaps_dead = self.opened[pick % len(self.opened)]
        got = read_fd(fd, offset, length, cold=cold, mapped=mapped)
        self.model.check(path, offset, length, got, _DEAD if perhaps_dead else frozenset())

    @rule()
    def walk(self) -> None:
        found = {
            str(Path(top).relative_to(self.volume.target)): sorted([*folders, *files])
            for top, folders, files in self._walk()
        }
        assert found == {folder or ".": self.model.children(folder) for folder in self.model.folders}

    def _walk(self) -> Iterator[tuple[str, list[str], list[str]]]:
        def fail(error: OSError) -> None:
            raise error

        return os.walk(self.volume.target, onerror=fail)

    @rule(pick=_PICK)
    def look(self, pick: int) -> None:
        path = self._path(pick)
        found = (self.volume.target / path).stat()
        content = self.model.files[path]
        assert (stat.S_ISREG(found.st_mode), found.st_size, found.st_mtime_ns) == (
            True,
            len(content.data),
            content.mtime_ns,
        )

    @rule(pick=_PICK, name=st.sampled_from(["nothing", "a", "large"]))
    def look_for_what_is_not_there(self, pick: int, name: str) -> None:
        with pytest.raises(NotADirectoryError):
            (self.volume.target / self._path(pick) / name).stat()
        with pytest.raises(FileNotFoundError):
            (self.volume.target / "none" / name).stat()

    @rule(pick=_PICK)
    def write(self, pick: int) -> None:
        with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
            os.open(self.volume.target / self._path(pick), os.O_WRONLY)

    @rule(victims=_VICTIMS, pick=_PICK)
    def kill(self, victims: str, pick: int) -> None:
        if victims == "all":
            self._lose_the_whole_sidecar(self._path(pick))
        else:
            self._kill_under_a_reader(victims, self._path(pick))

    def _kill_under_a_reader(self, victims: str, path: str) -> None:
        """Kill processes during a read: it waits, and gets the same bytes."""
        got: list[Got] = []
        reader = threading.Thread(
            target=lambda: got.append(read_path(self.volume.target / path, 0, 3 * CHUNK, cold=True)), daemon=True
        )
        reader.start()
        self._kill(victims)
        reader.join(SECONDS)
        assert got, f"a reader of {path} waits for more than {SECONDS} s"
        self.model.check(path, 0, 3 * CHUNK, got[0])

    def _kill(self, victims: str) -> None:
        keeper = self.node.keeper
        children = {row["name"]: row["pid"] for row in keeper.call(op="list")["children"]}
        servers = [row["pid"] for row in keeper.call(op="list")["servers"]]
        pids = {"server": servers, "fetcher": [children["fetcher"]]}.get(victims, [*servers, *children.values()])
        for pid in pids:
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        if victims != "server":
            wait_until(lambda: self._fetcher() not in (None, children["fetcher"]))
            self.node.hand_out(self.version)

    def _fetcher(self) -> int | None:
        rows: Sequence[dict[str, int | str | None]] = self.node.keeper.call(op="list")["children"]
        return next((int(row["pid"] or 0) for row in rows if row["name"] == "fetcher"), None) or None

    def _lose_the_whole_sidecar(self, path: str) -> None:
        """Kill the whole sidecar: reads fail until the next one mounts again."""
        self.node.keeper.kill()
        got = read_path(self.volume.target / path, 0, 3 * CHUNK, cold=True)
        self.model.check(path, 0, 3 * CHUNK, got, _DEAD if self.volume.mode is not NATIVE else frozenset())
        self.opened = [(name, fd, dead or self._leans_on_us(fd)) for name, fd, dead in self.opened]
        self.node.keeper.start()
        self.node.hand_out(self.version)
        self.volume.restart_agent()

    def _leans_on_us(self, fd: int) -> bool:
        """Return True if an open file depends on Stoker's processes: it is not a file of the cache disk."""
        return os.fstat(fd).st_dev != self.version.paths.manifest.stat().st_dev

    @rule()
    def restart_the_agent(self) -> None:
        before = self.volume.mode
        self.volume.restart_agent()
        assert self.volume.mode is before

    @rule(pick=_PICK, delete=st.booleans())
    def change_an_object(self, pick: int, delete: bool) -> None:
        """Change an object into one of the same size, so that only its ETag shows the change."""
        path = self._path(pick)
        if delete:
            self.source.delete(path)
        else:
            self.source.write(path, _CHANGED * len(self.model.files[path].data))

    @rule()
    def put_the_source_back(self) -> None:
        for path in self.model.spoilt():
            self.source.put(path, self.model.files[path])

    @rule()
    def warm_a_little(self) -> None:
        self.node.begin_warming(self.version)
        self.node.hand_out(self.version)

    @rule()
    def warm_all(self) -> None:
        self._warm()

    def _warm(self) -> None:
        self.put_the_source_back()
        self.node.warm(self.version)
        self.model.all_is_here()

    @precondition(lambda self: self.swaps)
    @rule()
    def swap(self) -> None:
        complete = self.version.paths.complete.exists()
        self.volume.settle()
        assert self.volume.mode is NATIVE or not complete

    @rule()
    def next_pod(self) -> None:
        """Start the next pod: it gets the source's current version."""
        self._end_of_the_pod()
        for path in {"large", "empty"} - self.source.objects.keys():  # at least one object must exist
            self.source.write(path, FILES[path])
        self._take_what_the_source_has()

    def _end_of_the_pod(self) -> None:
        for _, fd, _ in self.opened:
            with suppress(OSError):  # closed all the same: the kernel reports that the server below is gone
                os.close(fd)
        self.opened = []
        self.volume.unpublish()

    def teardown(self) -> None:
        if hasattr(self, "version"):
            self.put_the_source_back()
            for path in self.model.files:
                self._check_whole(path)
            self._end_of_the_pod()
            self.node.remove(self.uid)
        self.volume.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def node() -> Iterator[AgentlessNode]:
    with node_folder() as folder, Keeper(folder / "k", fetcher=FETCHER) as keeper:
        yield AgentlessNode(keeper)


@pytest.mark.parametrize(
    ("first", "swaps", "examples"),
    [(FUSE, False, 3), (OVERLAY, False, 4), (NATIVE, False, 3), (FUSE, True, 9)],
    ids=["fuse", "overlay", "native", "switching"],
)
def test_a_mounted_version_is_what_the_model_says(
    node: AgentlessNode, first: MountMode, swaps: bool, examples: int
) -> None:
    class Machine(MountMachine):
        def __init__(self) -> None:
            super().__init__(node, first, swaps=swaps)

    run_state_machine_as_test(Machine, settings=settings(_FEW, max_examples=examples))


@pytest.mark.parametrize("first", [FUSE, OVERLAY, NATIVE])
def test_a_folder_of_the_source_whose_only_file_was_deleted_is_shown_empty(
    node: AgentlessNode, first: MountMode
) -> None:
    machine = MountMachine(node, first, swaps=False)
    machine.begin()
    machine.change_an_object(sorted(machine.model.files).index("a/b/page+"), delete=True)
    machine.next_pod()
    machine.walk()
    machine.teardown()

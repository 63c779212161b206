"""A node's cache against a plain dictionary: after any events, a reader gets the bytes of the listing, or an error."""

import asyncio
import shutil
import struct
import tempfile
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.errors import NotYetConfigured, ObjectGone, ServerError, SourceChanged
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.fetcher_hints import WHOLE_FILE, FileKnobs, PackingKnobs, PrefetchWindow, Tune
from stoker_sidecar.wire.fetcher_protocol import Read
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import UID, CacheNodeUnderTest, flip_a_bit, open_cache_node

# The state machine makes the source fail, and removes files and folders, in any order. It may change and delete
# objects, files and folders freely, so every log record of the dataset's loop is expected.
pytestmark = pytest.mark.expected_logs("dataset vision/digits", "the model says so", "damaged on the disk")
T = TypeVar("T")
PATHS = st.sampled_from(["a", "d/b", "d/e/c"])
# Below, at and above one and two chunks of the largest size that is still quick to make.
SIZES = st.sampled_from([0, 1, 100, CHUNK, CHUNK + 1, 2 * CHUNK + 5])
OFFSETS = st.sampled_from([0, 50, CHUNK - 1, CHUNK, 2 * CHUNK, 3 * CHUNK])


class CacheMachine(RuleBasedStateMachine):
    """A node's cache against ``versions``: digest -> path -> content at the listing. ``retain`` keeps them all."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="stoker-model-"))
        self.store = MemoryStore()
        self.versions: dict[str, dict[str, bytes]] = {}
        self.current = ""
        self.listings = 0
        self.seed = 0
        self.quota: int | None = None
        self.stack = AsyncExitStack()

    @initialize()
    def open(self) -> None:
        self.cache_node: CacheNodeUnderTest = self._run(
            self.stack.enter_async_context(
                open_cache_node(self.folder, {"bucket": self.store}, 3 * CHUNK, scrub_interval=1e-6)
            )
        )
        self.put("a", 100)
        self.list()

    @rule(path=PATHS, size=SIZES)
    def put(self, path: str, size: int) -> None:
        self.seed += 1
        self.store.put(path, (b"%08d" % self.seed * (size // 8 + 1))[:size], mtime_ns=self.seed * 1000)

    @rule(path=PATHS)
    def delete(self, path: str) -> None:
        self.store.objects.pop(path, None)

    @rule(times=st.integers(1, 9))
    def fail(self, times: int) -> None:
        self.store.fail(ServerError("the model says so"), times)

    @precondition(lambda self: any(content for content, _ in self.store.objects.values()))
    @rule()
    def list(self) -> None:
        self.listings += 1
        now = {path: content for path, (content, _) in self.store.objects.items()}
        self.current = self._run(self.cache_node.list(str(self.listings), **self._wish()))
        self.versions[self.current] = now
        self._configure()
        self._run(self.cache_node.reach(lambda status: status.version == self.current and status.files > 0))

    @rule(quota=st.sampled_from([None, 10, CHUNK + 50, 10 * CHUNK]), eager=st.booleans())
    def wish(self, quota: int | None, eager: bool) -> None:
        self.quota = quota
        self._configure(eager=eager)

    @rule(
        path=PATHS,
        offset=OFFSETS,
        length=st.sampled_from([1, 4096, CHUNK + 7]),
        data=st.data(),
    )
    def read(self, path: str, offset: int, length: int, data: st.DataObject) -> None:
        digest = data.draw(st.sampled_from(sorted(self.versions)))
        content = self.versions[digest].get(path)
        if content is None:
            return
        ino = self._ino(digest, path)
        try:
            found = self._run(self.cache_node.read(digest, ino, offset, length))
        except (SourceChanged, ObjectGone):
            assert self.store.objects.get(path, (None, 0))[0] != content
        except ServerError:
            pass  # a queued fault that outlasted the retries
        else:
            assert found == content[offset : offset + length]

    @rule(order=st.permutations(["a", "d/b", "d/e/c"]), again=st.booleans(), reader=st.sampled_from(["one", "other"]))
    def prefetch(self, order: Sequence[str], again: bool, reader: str) -> None:
        """Announce the read order of the current version. Cached files and reads stay right."""
        known = [path for path in order if path in self.versions[self.current]]
        pieces = [(self._ino(self.current, path), WHOLE_FILE) for path in known * (1 + again)]
        self._foresee(reader, b"".join(struct.pack("<II", *piece) for piece in pieces))

    @rule(reader=st.sampled_from(["one", "other"]))
    def take_the_order_back(self, reader: str) -> None:
        self._foresee(reader, b"")

    def _foresee(self, reader: str, pieces: bytes) -> None:
        async def tell() -> None:
            with suppress(NotYetConfigured):  # the agent sends it again
                self.cache_node.node.prefetch(PrefetchWindow(UID, self.current, reader, pieces))

        self._run(tell())

    @rule(path=PATHS)
    def someone_deletes_a_file(self, path: str) -> None:
        (self.cache_node.folder(self.current) / "tree" / path).unlink(missing_ok=True)

    @rule(packing=st.sampled_from([None, PackingKnobs(1, 1.5), PackingKnobs(1, 1.5, tried=False)]))
    def pack(self, packing: PackingKnobs | None) -> None:
        self.cache_node.node.tune(Tune(UID, self.current, (FileKnobs(packing=packing),)))

    @rule(place=st.sampled_from([None, 0, 500, -5]))
    def someone_spoils_the_copies(self, place: int | None) -> None:
        """Write different bytes at ``place``, or delete them."""
        for copy in self.cache_node.copies(self.current).values():
            data = bytearray(copy.read_bytes())
            copy.unlink()
            if place is not None:
                data[place : place + 4 or None] = b"\0\1\2\3"
                copy.write_bytes(data)

    @rule()
    def someone_deletes_all_files(self) -> None:
        shutil.rmtree(self.cache_node.folder(self.current) / "tree", ignore_errors=True)
        self._run(self.cache_node.node.look_after())

    @rule()
    def scrub(self) -> None:
        """Start a pass over existing files. It also finds deleted files."""
        self._run(self.cache_node.node.look_after())

    @rule(path=PATHS)
    def a_file_that_a_reader_has_open_is_damaged_and_repaired(self, path: str) -> None:
        content, file = self.versions[self.current].get(path), self.cache_node.folder(self.current) / "tree" / path
        if not content or not self.cache_node.is_open(self.current) or not file.is_file():
            return
        with file.open("rb") as reader:
            flip_a_bit(file)
            self._run(self.cache_node.repair(self.current, path))
            assert reader.read() in (content, b"")

    @rule()
    def restart(self) -> None:
        self._run(self.stack.aclose())
        self.stack = AsyncExitStack()
        self.cache_node = self._run(
            self.stack.enter_async_context(
                open_cache_node(self.folder, {"bucket": self.store}, 3 * CHUNK, scrub_interval=1e-6)
            )
        )
        self._configure()

    @precondition(lambda self: self._unchanged())
    @rule()
    def warm_up(self) -> None:
        self.quota = None
        self._configure(eager=True)
        for path in self.versions[self.current]:  # a reader that misses a deleted file reports it
            self.read_now(self.current, path)
        self._run(self.cache_node.reach(lambda status: status.phase is NodePhase.WARM))
        assert self.cache_node.tree(self.current) == self.versions[self.current]

    def read_now(self, digest: str, path: str) -> None:
        with suppress(ServerError):
            ino = self._ino(digest, path)
            self._run(self.cache_node.node.read(Read(UID, digest, ino, 0, 1, doubt=True)))

    @invariant()
    def trees_hold_only_right_files(self) -> None:
        for digest, content in self.versions.items():
            assert self.cache_node.tree(digest).items() <= content.items()

    def teardown(self) -> None:
        self._run(self.stack.aclose())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.folder)

    def _configure(self, **changes: Any) -> None:
        self._run(self.cache_node.configure(listingId=str(self.listings), **self._wish(), **changes))

    def _wish(self) -> dict[str, Any]:
        quota = {} if self.quota is None else {"quotaBytes": self.quota}
        return {"version": self.current, "retain": sorted(self.versions), **quota}

    def _unchanged(self) -> bool:
        now = {path: content for path, (content, _) in self.store.objects.items()}
        return self.versions.get(self.current) == now

    def _ino(self, digest: str, path: str) -> int:
        manifest = Manifest.open(self.cache_node.folder(digest) / "manifest.sqlite")
        entry = manifest.find(path)
        manifest.close()
        assert entry is not None
        return entry.ino

    def _run(self, work: Awaitable[T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, 30))


TestCache = CacheMachine.TestCase
TestCache.settings = settings(
    max_examples=80, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

"""A node with repeated power cuts: real fetcher, FUSE servers and overlay on a disk with a volatile cache."""

import asyncio
import errno
import os
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker_sidecar.linux.mounts import overlay
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.volumes.core.publish import VersionOnDisk
from stoker_sidecar.volumes.layers import metadata_layer
from stoker_sidecar.volumes.versions_on_disk import CacheFolders, OpenedFolders
from stoker_sidecar.wire.fetcher_protocol import Configure, Done, Remove
from tests.support.fetcher_process import FetcherProcess, fetcher_process
from tests.support.keeper import Keeper
from tests.support.layer_forms import best_form
from tests.support.s3 import CREDENTIALS
from tests.support.volatile_disk import VolatileDisk
from tests.support.waiting import eventually, eventually_async

_SECONDS = 60.0
_LONGEST = 2.5  # seconds of warming before the power cut


@dataclass
class Tally:
    """The findings. ``hazards`` are files with a final name and wrong bytes on the disk, before the fetcher ran."""

    cuts: int = 0
    lost_blocks: int = 0
    hazards: int = 0
    checked: int = 0  # versions that were found again
    reads: int = 0
    errors: int = 0
    wrong: list[str] = field(default_factory=list)

    def judge(self, where: str, path: str, data: bytes, right: bytes) -> None:
        """Count one read."""
        self.reads += 1
        if data != right:
            kind = "zeros" if data.count(0) == len(data) == len(right) else f"{len(data)} other bytes"
            self.wrong.append(f"cut {self.cuts}, {where}: {kind} for {path}")


@dataclass
class CutNode:
    """The node. ``source`` is that of the Dataset, with the objects ``files``."""

    folder: Path
    disk: VolatileDisk
    keeper: Keeper  # survives the cuts, because it has no state on the disk; each version has a new FUSE server
    source: Mapping[str, Any]
    files: Mapping[str, bytes]
    random: random.Random
    tally: Tally = field(default_factory=Tally)
    _uid: str = ""
    _digest: str = ""

    async def cycle(self, *, eager: bool) -> None:
        """Start the node, read the remains of the last cut, warm another Dataset, and cut power at a random time."""
        self.disk.switch_on()
        root = self.disk.path
        self._count_hazards()
        (root / "boot").write_text("an earlier boot")
        first_look = asyncio.create_task(self._look_at_once())
        try:
            async with fetcher_process(root, start_seconds=_SECONDS) as fetcher:
                await self._check_left(fetcher, first_look, eager=eager)
                await self._warm_until_cut(fetcher, eager=eager)
        finally:
            first_look.cancel()
            self.disk.switch_off()

    def _paths(self) -> VersionPaths:
        return CachePaths(self.disk.path).dataset(self._uid).version(self._digest)

    def _count_hazards(self) -> None:
        if self._digest:
            tree = self._paths().tree
            there = [path for path in self.files if (tree / path).exists()]
            self.tally.hazards += sum((tree / path).read_bytes() != self.files[path] for path in there)

    async def _look_at_once(self) -> VersionOnDisk:
        """Wait until the agent would mount the version. Read its whole tree at that moment."""
        folders = CacheFolders([self.disk.path], opened=OpenedFolders())
        found = await eventually_async(lambda: self._find(folders), _SECONDS)
        self._read_tree(found.folder / "tree", "native", complete=found.complete)
        return found

    async def _find(self, folders: CacheFolders) -> VersionOnDisk | None:
        return folders.find(self._uid, self._digest) if self._digest else None

    def _read_tree(self, tree: Path, where: str, *, complete: bool) -> None:
        for path, right in self.files.items():
            try:
                data = (tree / path).read_bytes()
            except FileNotFoundError:
                if complete:
                    self.tally.wrong.append(f"cut {self.tally.cuts}, {where}: no {path} in a complete version")
                continue
            self.tally.judge(where, path, data, right)

    async def _check_left(
        self, fetcher: FetcherProcess, first_look: "asyncio.Task[VersionOnDisk]", *, eager: bool
    ) -> None:
        """Read the version that was in progress at the cut, by each kind of mount. Then remove it."""
        if not self._digest:
            return
        if self._paths().manifest.exists():
            await self._configure(fetcher, self._digest, eager=eager)
            async with asyncio.timeout(_SECONDS):
                await first_look
            self.tally.checked += 1
            with self._mounted() as mounts:
                for where, mount in mounts.items():
                    await asyncio.to_thread(self._read_all, where, mount)
        await self._configure(fetcher, "", eager=False)
        await fetcher.ask(Remove(self._uid))

    def _read_all(self, where: str, mount: Path) -> None:
        for path in self.random.sample(sorted(self.files), len(self.files)):
            self._read(where, mount, path)

    def _read(self, where: str, mount: Path, path: str) -> None:
        try:
            data = (mount / path).read_bytes()
        except OSError:
            self.tally.errors += 1
        else:
            self.tally.judge(where, path, data, self.files[path])

    async def _configure(self, fetcher: FetcherProcess, digest: str, *, eager: bool) -> None:
        dataset: dict[str, Any] = {"namespace": "n", "name": "set", "uid": self._uid, "source": self.source}
        dataset["listingId"] = "1"
        dataset |= {"version": digest, "eager": eager} if digest else {}
        held = (digest,) if digest else ()
        assert await fetcher.ask(Configure(dataset, CREDENTIALS, held)) == Done()

    async def _warm_until_cut(self, fetcher: FetcherProcess, *, eager: bool) -> None:
        self.tally.cuts += 1
        self._uid, self._digest = f"uid-{self.tally.cuts}", ""
        await self._configure(fetcher, "", eager=False)
        self._digest = await self._listed(fetcher)
        await self._configure(fetcher, self._digest, eager=eager)
        await eventually(self._paths().tree.exists, _SECONDS)
        stop = threading.Event()
        with self._mounted() as mounts:
            readers = [asyncio.create_task(asyncio.to_thread(self._read_on, *one, stop)) for one in mounts.items()]
            readers.append(asyncio.create_task(asyncio.to_thread(self._sync_others, stop)))
            await asyncio.sleep(self.random.uniform(0.0, _LONGEST))
            stop.set()
            kept = self.random.choice((0.0, 0.0, 0.5, 0.9))
            self.tally.lost_blocks += await asyncio.to_thread(self.disk.cut, self.random.getrandbits(32), kept)
            await fetcher.kill()
            await asyncio.to_thread(self._release)  # otherwise readers wait for a fetcher that does not return
            await asyncio.gather(*readers)

    async def _listed(self, fetcher: FetcherProcess) -> str:
        def row() -> Any:
            rows = (one for one in fetcher.progress.datasets if one["uid"] == self._uid)
            return next((one.get("listing") for one in rows), None)

        await eventually(lambda: bool(row() and row().get("version")), _SECONDS)
        return str(row()["version"])

    def _read_on(self, where: str, mount: Path, stop: threading.Event) -> None:
        chance = random.Random(self.random.random())
        while not stop.is_set():
            self._read(f"{where} while warming", mount, chance.choice(sorted(self.files)))

    def _sync_others(self, stop: threading.Event) -> None:
        """Sync another file of the disk now and then, as other programs do, which also writes names to the journal."""
        with suppress(OSError), (self.disk.path / "other").open("wb", buffering=0) as file:
            while not stop.wait(0.15):
                file.write(b"x")
                os.fsync(file.fileno())

    @contextmanager
    def _mounted(self) -> Iterator[dict[str, Path]]:
        """Mount the version by FUSE and by an overlay over that."""
        paths, fuse = self._paths(), self.keeper.mount_root / self._uid / self._digest
        places = {"manifest": paths.manifest, "version_dir": paths.folder, "mountpoint": fuse}
        asked = {name: str(path) for name, path in places.items()}
        reply = self.keeper.call(op="serve", uid=self._uid, digest=self._digest, **asked)
        if not reply["ok"]:
            raise OSError(errno.EIO, reply["message"])
        above = self.folder / "overlays" / f"{self._uid}.{self.tally.cuts}.overlay"
        above.mkdir(parents=True)
        layer = self.folder / f"{self._uid}.{self.tally.cuts}.layer"
        metadata_layer.build(paths.manifest, layer, form=best_form())
        overlay.mount(overlay.OverlayLayers(layer, paths.tree, fuse, paths.root), above)
        try:
            yield {"FUSE": fuse, "overlay": above}
        finally:
            overlay.unmount(above)
            metadata_layer.remove(layer)
            self._release()

    def _release(self) -> None:
        self.keeper.call(op="release", uid=self._uid, digest=self._digest)

"""Gives the versions of one dataset their folders and manifests."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker_api.names import Reason
from stoker_sidecar.errors import CacheError, ManifestUnavailable, NotConfigured, NotYetConfigured
from stoker_sidecar.fetcher.datasets.manifests import Destination, install_manifest
from stoker_sidecar.fetcher.space.budget import SpaceBudget
from stoker_sidecar.fetcher.space.folders import CacheDisks
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.builder import verify
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest, ManifestInfo
from stoker_sidecar.wire.config.peer_tls import left


class VersionPlaces:
    """The folders of one dataset's versions, present or chosen for new ones."""

    def __init__(self, folders: CacheDisks, budget: SpaceBudget) -> None:
        self._folders = folders
        self._budget = budget
        self._placing: list[set[str]] = []

    @property
    def placed(self) -> set[str]:
        """The digests of versions that have a folder and are still being opened."""
        return set().union(*self._placing)

    @contextmanager
    def placing(self) -> Iterator[Destination]:
        """Give versions folders. None of them is dropped before the end, when the caller has opened them."""
        digests: set[str] = set()
        self._placing.append(digests)

        def destination(info: ManifestInfo) -> VersionPaths:
            digests.add(info.digest)
            return self._folder_for(info)

        try:
            yield destination
        finally:
            self._placing = [one for one in self._placing if one is not digests]

    def _folder_for(self, info: ManifestInfo) -> VersionPaths:
        """Return the present or future paths of a version."""
        found = self._folders.find(self._budget.config.uid, info.digest)
        if found is not None:
            return found
        quota = self._budget.config.quota_bytes
        need = info.bytes if quota is None else min(quota, info.bytes)
        return self._folders.place(self._budget.config.uid, need).dataset.version(info.digest)


class VersionManifests:
    """The manifests of one dataset's versions: saved from a lost folder, or fetched from other nodes.

    ``identity``: the folder with this node's peer certificate; None: no node is asked.
    """

    def __init__(self, folders: CacheDisks, uid: str, identity: Path | None) -> None:
        self._folders = folders
        self._uid = uid
        self._identity = identity
        self._rescued: dict[str, Path] = {}
        self._lost: set[str] = set()  # left with their folder, and not open again

    def has_rescued(self, digest: str) -> bool:
        """Return True if the manifest was saved from a lost folder."""
        return digest in self._rescued

    async def lose(self, digest: str, manifest: Manifest) -> None:
        """Note that an open version loses its folder. Save its manifest, from the open file."""
        self._lost.add(digest)
        if self._folders.find(self._uid, digest) is None:
            with suppress(CacheError, OSError):
                self._rescued[digest] = await in_thread(self._rescue, manifest)

    def opened(self, digest: str) -> None:
        """Note that a version is open again."""
        self._lost.discard(digest)

    async def bring(self, digest: str, hosts: tuple[str, ...] | None, place: Destination) -> VersionPaths:
        """Install a manifest that is not in its folder: a saved one, or that of another node. Raises SidecarError.

        ``hosts``: host:port of nodes with the manifest; None if this node must have it already.
        """
        if (rescued := self._rescued.pop(digest, None)) is not None:
            with suppress(CacheError, OSError):
                info = await in_thread(verify, rescued, digest)
                target = place(info)
                await in_thread(install_manifest, rescued, target)
                return target
        if hosts is None:
            raise NotConfigured(f"this node has no version {digest[:12]} of this dataset")
        if not hosts and digest in self._lost:
            # This is no failure for its readers: they retry, because this node lists again now.
            sentence = f"the manifest of version {digest[:12]} was lost with its cache folder: listing again"
            raise NotYetConfigured(sentence, reason=Reason.MANIFEST_UNAVAILABLE)
        # A late import. It needs aiohttp, 0.1 s at each start of a fetcher, and a node that lists asks no peers.
        from stoker_sidecar.fetcher.datasets.given_manifests import fetch_manifest

        urls = tuple(f"https://{host}/manifests/{self._uid}/{digest}" for host in hosts)
        tls = await in_thread(self._peer_tls) if urls else None
        await fetch_manifest(urls, self._folders.home(self._uid).dataset, digest, place, tls=tls)
        found = self._folders.find(self._uid, digest)
        if found is None:
            raise NotConfigured(f"the manifest of version {digest[:12]} was lost again: its cache folder failed")
        return found

    def _peer_tls(self) -> ssl.SSLContext:
        """Return this node's peer certificate as a TLS context.

        Blocks. Raises ManifestUnavailable without a certificate.
        """
        try:
            found = left(self._identity) if self._identity else None
            if found is not None:
                return found.client_context()
        except (OSError, ValueError) as error:
            raise ManifestUnavailable(f"this node's certificate for other nodes cannot be used: {error}") from error
        raise ManifestUnavailable(
            "this node has no certificate for other nodes: the operator signs it within seconds, unless it is not "
            "running, or the NodeCache has the annotation stoker.dev/peers: Off"
        )

    def _rescue(self, manifest: Manifest) -> Path:
        home = self._folders.home(self._uid).dataset
        home.folder.mkdir(parents=True, exist_ok=True)
        target = home.folder / f"manifest.{manifest.info.digest[:12]}.rescued"
        target.unlink(missing_ok=True)
        manifest.copy_to(target)
        return target

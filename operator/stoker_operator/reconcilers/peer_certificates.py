"""Signs the certificates by which nodes know each other, and keeps the Secret with their authority."""

import base64
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

from stoker_api import names
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.node_caches.peers import PeerCertificate
from stoker_kube.api import Object
from stoker_kube.errors import NotFound
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_kube.resources import SECRETS
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.loops.keyed_work import KeyedWork
from stoker_operator.reconcilers.loops.turns import KeyedAction
from stoker_operator.webhook.peer_authority import Issued, PeerAuthority, PeerSigner, renewed_authority
from stoker_operator.writes.writer import Writer

log = logging.getLogger(__name__)
CHECK = 30.0  # seconds: a deleted authority is created again this soon
_KEYS = {"authorities": "ca.crt", "key": "ca.key"}


class _GoodCertificate(NamedTuple):
    """A node's valid certificate, with the authority and the key that it was checked against."""

    authorities: bytes
    key: str
    issued: Issued


class PeerCertificates:
    """The certificates of all nodes, each in the node's NodeCache.

    A node reports its public key in its NodeCache's status, which no other node may write. ``clock``: seconds since the
    epoch.
    """

    def __init__(self, writer: Writer, state: ClusterState, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._clock: Final = clock
        self._signer: PeerSigner | None = None
        self._looked = float("-inf")
        self._known: Final[dict[str, _GoodCertificate]] = {}
        self.work: Final = KeyedWork("peers", clock, events, budget=writer.budget)

    async def reconcile(self) -> float | None:
        """Run one pass; return the seconds until time alone requires the next. Raises KubeError."""
        signer = await self._current_signer()
        again = self.work.take(self._actions(signer))
        return CHECK if again is None else min(again, CHECK)

    def _actions(self, signer: PeerSigner) -> list[KeyedAction]:
        """Return the actions that write due certificates."""
        caches, found = self._state.snapshot().node_caches, []
        for node in self._known.keys() - caches.keys():
            del self._known[node]
        for node, cache in caches.items():
            if self._is_due(signer, node, cache):
                about = ObjectRef(names.API_VERSION, NodeCache.KIND, node)
                act = partial(self._write, signer, node)
                key = f"certificate of node {node}"
                found.append(KeyedAction(key, "certificate", node, act, (cache.status.peer_key, signer), about))
        return found

    def _is_due(self, signer: PeerSigner, node: str, cache: NodeCache) -> bool:
        key, there = cache.status.peer_key, cache.spec.peer
        if not key or cache.is_revoked:
            return there != PeerCertificate()
        known, now = self._known.get(node), self._now()
        if (
            known is not None
            and (known.authorities, known.key) == (signer.authority.authorities, key)
            and known.issued.certificate == there.certificate
        ):
            return now >= known.issued.renew
        try:
            issued = signer.current(there, node, key, now)
        except ValueError as error:
            log.debug("node %s reports a key that cannot be signed: %s", node, error)
            return False
        if issued is None:
            return True
        self._known[node] = _GoodCertificate(signer.authority.authorities, key, issued)
        return False

    async def _write(self, signer: PeerSigner, node: str) -> None:
        cache = self._state.node_caches.get(node)
        if cache is None or not self._is_due(signer, node, cache):
            return
        if cache.status.peer_key and not cache.is_revoked:
            peer = signer.sign(node, cache.status.peer_key, self._now())
            log.info("signed a certificate for node %s", node)
        else:
            peer = PeerCertificate()
        self._state.node_caches.put(node, await self._writer.node_certificate(node, cache.metadata.uid, peer))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    async def _current_signer(self) -> PeerSigner:
        """Return the signer; check the Secret every ``CHECK`` seconds. Raises KubeError."""
        now = self._clock()
        if self._signer is None or not 0 <= now - self._looked < CHECK:
            authority = await self._authority()
            if self._signer is None or self._signer.authority != authority:
                self._signer = PeerSigner(authority)
            self._looked = now
        return self._signer

    async def _authority(self) -> PeerAuthority:
        namespace, name = self._state.own_namespace, names.PEER_AUTHORITY_SECRET
        try:
            secret = await self._writer.get(SECRETS, name, namespace)
        except NotFound:
            return await self._made()
        present = _from_secret(secret)
        wanted = renewed_authority(present, self._now())
        if wanted != present:
            version = secret["metadata"]["resourceVersion"]
            patch: Object = {"metadata": {"resourceVersion": version}, "data": _data(wanted)}
            await self._writer.merge(SECRETS, name, namespace, patch)
            log.info("renewed the authority of the nodes' certificates in Secret %s/%s", namespace, name)
        return wanted

    async def _made(self) -> PeerAuthority:
        namespace, name = self._state.own_namespace, names.PEER_AUTHORITY_SECRET
        authority = renewed_authority(None, self._now())
        metadata = {"name": name, "namespace": namespace, "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}}
        await self._writer.create(SECRETS, {"metadata": metadata, "data": _data(authority)}, namespace)
        log.info("made the authority of the nodes' certificates in Secret %s/%s", namespace, name)
        return authority


def certified(old: NodeCache | None, new: NodeCache | None) -> bool:
    """Return True if an input of a node's certificate changed."""
    return _basis(old) != _basis(new)


def _basis(cache: NodeCache | None) -> tuple[object, ...]:
    return () if cache is None else (cache.status.peer_key, cache.spec.peer, cache.is_revoked)


def _data(authority: PeerAuthority) -> dict[str, str]:
    return {key: base64.b64encode(getattr(authority, field)).decode() for field, key in _KEYS.items()}


def _from_secret(secret: Object) -> PeerAuthority | None:
    data = secret.get("data") or {}
    if not all(data.get(key) for key in _KEYS.values()):
        return None
    return PeerAuthority(**{field: base64.b64decode(data[key]) for field, key in _KEYS.items()})

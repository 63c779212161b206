"""Keeps the Secret by which sidecars know each other. Any replica makes or renews it; the sidecars read it."""

import base64
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from stoker_api import names
from stoker_kube.api import Kube, Object
from stoker_kube.errors import AlreadyExists, Conflict, NotFound
from stoker_kube.resources import SECRETS
from stoker_operator.webhook.certs import PeerMaterial, renewed_peer

log = logging.getLogger(__name__)
_KEYS = {"authorities": "ca.crt", "certificate": "tls.crt", "key": "tls.key"}


class PeerCertificate:
    """The Secret, in ``namespace``."""

    def __init__(self, kube: Kube, namespace: str, now: Callable[[], datetime]) -> None:
        self._kube: Final = kube
        self._namespace: Final = namespace
        self._now: Final = now

    async def ensure(self) -> None:
        """Run one pass: make the Secret, or renew what is due. Raises KubeError."""
        try:
            secret = await self._kube.get(SECRETS, names.PEER_SECRET, self._namespace)
        except NotFound:
            await self._make()
            return
        present = _material(secret)
        wanted = renewed_peer(present, self._now())
        if wanted == present:
            return
        version = secret["metadata"]["resourceVersion"]
        patch: Object = {"metadata": {"resourceVersion": version}, "data": _data(wanted)}
        try:
            await self._kube.patch(SECRETS, names.PEER_SECRET, patch, self._namespace)
        except Conflict:
            return  # another replica was first
        log.info("renewed the sidecars' certificate in Secret %s/%s", self._namespace, names.PEER_SECRET)

    async def _make(self) -> None:
        labels = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
        metadata = {"name": names.PEER_SECRET, "namespace": self._namespace, "labels": labels}
        body: Object = {"metadata": metadata, "type": "kubernetes.io/tls"}
        body["data"] = _data(renewed_peer(None, self._now()))
        try:
            await self._kube.create(SECRETS, body, self._namespace)
        except AlreadyExists:
            return  # another replica was first
        log.info("made the sidecars' certificate in Secret %s/%s", self._namespace, names.PEER_SECRET)


def _data(material: PeerMaterial) -> dict[str, str]:
    return {key: base64.b64encode(getattr(material, field)).decode() for field, key in _KEYS.items()}


def _material(secret: Object) -> PeerMaterial | None:
    data = secret.get("data") or {}
    if not all(data.get(key) for key in _KEYS.values()):
        return None
    return PeerMaterial(**{field: base64.b64decode(data[key]) for field, key in _KEYS.items()})

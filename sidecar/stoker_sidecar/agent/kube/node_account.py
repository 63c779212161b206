"""The node's ServiceAccount, which reads the credentials of its Datasets. Other nodes have no access to them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple, TypeVar

from stoker_api import names
from stoker_kube.api import Kube
from stoker_kube.errors import Forbidden, NotFound, Unauthorized
from stoker_kube.resources import SERVICE_ACCOUNTS
from stoker_sidecar.agent.kube.credential_source import renew_after

log = logging.getLogger(__name__)
TOKEN_SECONDS = 3600  # renewed after 48 minutes, so the API server may be unavailable for 12

T = TypeVar("T")


class _Asking(NamedTuple):
    """An API client with the account's token, and the renewal time in seconds of a monotonic clock."""

    kube: Kube
    renew: float


class NodeAccount:
    """The account of ``node``, for an installation in ``namespace``; without a namespace there is none.

    ``clock`` counts seconds; ``today`` is the wall clock, only compared with a server's.
    """

    def __init__(
        self, kube: Kube, namespace: str, node: str, clock: Callable[[], float], today: Callable[[], datetime]
    ) -> None:
        self._kube = kube
        self._namespace = names.node_accounts_namespace(namespace) if namespace else ""
        self._node = node
        self._clock = clock
        self._today = today
        self._asking: _Asking | None = None
        self._minting = asyncio.Lock()  # Datasets are read concurrently, and share one token

    @property
    def node(self) -> str:
        """The name of the node."""
        return self._node

    async def ask(self, what: Callable[[Kube], Awaitable[T]]) -> T:
        """Return ``what(kube)``, called with the account's token. Raises KubeError.

        Without an account, use the pod's token: an operator of an earlier version creates no accounts and grants the
        pod's account the rights.
        """
        kube = await self._as_node()
        try:
            return await what(kube)
        except Unauthorized:
            if kube is self._kube:
                raise
        self._asking = None  # the account was recreated, which revoked its tokens
        return await what(await self._as_node())

    async def _as_node(self) -> Kube:
        if not self._namespace:
            return self._kube
        async with self._minting:
            if self._asking is None or self._clock() >= self._asking.renew:
                self._asking = await self._mint()
        return self._asking.kube if self._asking else self._kube

    async def _mint(self) -> _Asking | None:
        now = self._clock()
        body = {"spec": {"expirationSeconds": TOKEN_SECONDS}}  # no audience: only for the API server
        try:
            answer = await self._kube.create_subresource(SERVICE_ACCOUNTS, self._node, self._namespace, "token", body)
        except (NotFound, Forbidden) as error:
            log.info("the node has no account yet: %s", error.message)
            return None
        status = answer["status"]
        expires = datetime.fromisoformat(status["expirationTimestamp"])
        renew = now + renew_after(self._today(), expires, TOKEN_SECONDS)
        return _Asking(self._kube.as_bearer(status["token"]), renew)

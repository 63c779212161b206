"""The node's own ServiceAccount: what its Datasets name is read in its name, and no other node has a right to it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple, TypeVar

from stoker_api import names
from stoker_kube.api import Kube
from stoker_kube.errors import Forbidden, NotFound, Unauthorized
from stoker_kube.resources import SERVICE_ACCOUNTS
from stoker_sidecar.agent.core.credential_source import renew_after

log = logging.getLogger(__name__)
TOKEN_SECONDS = 3600  # renewed after 48 minutes, so an API server may be away for 12

T = TypeVar("T")


class _Asking(NamedTuple):
    """The API server as the account asks it, and until when, in seconds of a clock that nobody sets."""

    kube: Kube
    renew: float


class NodeAccount:
    """The account of ``node``, of an installation in ``namespace``; without a namespace there is none.

    ``clock`` counts seconds; ``today`` is the wall clock, only ever compared with a server's.
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
        self._minting = asyncio.Lock()  # Datasets are read side by side, and one token does for all

    @property
    def node(self) -> str:
        """The name of the node."""
        return self._node

    async def ask(self, what: Callable[[Kube], Awaitable[T]]) -> T:
        """Return ``what(kube)``, asked in the account's name. Raises KubeError.

        While there is no account, it is asked in the pod's own name: an operator of an earlier version, which makes no
        accounts, gives that name the rights.
        """
        kube = await self._as_node()
        try:
            return await what(kube)
        except Unauthorized:
            if kube is self._kube:
                raise
        self._asking = None  # the account was made anew, and its tokens ended with the old one
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
        body = {"spec": {"expirationSeconds": TOKEN_SECONDS}}  # no audience: for the API server, and nobody else
        try:
            answer = await self._kube.create_subresource(SERVICE_ACCOUNTS, self._node, self._namespace, "token", body)
        except (NotFound, Forbidden) as error:
            log.info("the node has no account of its own yet: %s", error.message)
            return None
        status = answer["status"]
        expires = datetime.fromisoformat(status["expirationTimestamp"])
        renew = now + renew_after(self._today(), expires, TOKEN_SECONDS)
        return _Asking(self._kube.as_bearer(status["token"]), renew)

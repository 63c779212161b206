"""Rereads the plan's Secrets and ServiceAccounts periodically, so that a rotated key takes effect automatically."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from stoker_api import names
from stoker_api.datasets.dataset_source import Credentials as Reference
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.times import format_time
from stoker_kube.api import Object
from stoker_kube.errors import Forbidden, KubeError, NotFound
from stoker_kube.resources import SECRETS, SERVICE_ACCOUNTS, Kind
from stoker_sidecar.agent.core.grants import NodeGrants
from stoker_sidecar.agent.kube import credential_source as identity
from stoker_sidecar.agent.kube.node_account import TOKEN_SECONDS, NodeAccount
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.wire.credentials import (
    AmbientCredentials,
    AnonymousCredentials,
    Credentials,
    FolderGrant,
    UnusableCredentials,
    WebIdentityCredentials,
)

log = logging.getLogger(__name__)
READ_AGAIN_SECONDS = 60.0  # a rotated key should work within a minute, at the cost of one small GET per Secret
_PACES = 2.0  # report intervals of figures; longer ones mean thousands of nodes, which would send a request each minute
READ_SOON_SECONDS = 5.0  # a person is probably creating or fixing a missing or refused key
_FROM_SETTINGS = AmbientCredentials | AnonymousCredentials | FolderGrant
_FOLDERS = "file://"
_REFUSED = frozenset({Reason.INVALID_CREDENTIALS, Reason.ACCESS_DENIED})


class _Named(NamedTuple):
    """The parts of a Dataset that determine its credentials."""

    namespace: str
    in_folder: bool
    reference: Reference | None
    anonymous: bool


@dataclass(frozen=True)
class _Read:
    """The last read of a dataset's credentials; ``at`` and ``renew`` in seconds of a monotonic clock."""

    source: _Named
    credentials: Credentials
    at: float
    renew: float | None = None


class CredentialReader:
    """Keeps ``plan.credentials`` equal to Secrets and ServiceAccounts, read with ``account``.

    ``clock`` counts seconds; ``today`` is the wall clock, only compared with a server's.
    """

    def __init__(
        self,
        account: NodeAccount,
        plan: NodePlan,
        grants: NodeGrants,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._account = account
        self._plan = plan
        self._clock = clock
        self._today = today
        self._grants = grants
        self._read: dict[str, _Read] = {}

    async def run(self) -> None:
        """Read due credentials every few seconds, until cancelled.

        Datasets are read concurrently, so that none waits for a slow answer to another one.
        """
        while True:
            token = self._plan.changes.token()
            await self.read_due()
            await self._plan.changes.wait(token, READ_SOON_SECONDS)

    async def read_due(self) -> None:
        """Read credentials that are new, old, or refused by their store. A shared Secret is read once."""
        planned = self._plan.planned
        self._read = {uid: read for uid, read in self._read.items() if uid in planned}
        due: dict[object, NodeDataset] = {}
        for dataset in planned.values():
            if self._is_due(dataset):
                due.setdefault(_shared(dataset), dataset)
        began = self._clock()
        await asyncio.gather(*(self._refresh(dataset) for dataset in due.values()))
        for dataset in self._plan.planned.values():
            one = due.get(_shared(dataset))
            read = None if one is None or one.uid == dataset.uid else self._read.get(one.uid)
            if read is not None and read.at >= began and read.source == _source(dataset):
                self._take(dataset, read)

    def _is_due(self, dataset: NodeDataset) -> bool:
        read = self._read.get(dataset.uid)
        if read is None or read.source != _source(dataset):
            return True
        if isinstance(read.credentials, _FROM_SETTINGS):
            return False
        age = self._clock() - read.at
        row = self._plan.status_of(dataset.uid)
        refused = row is not None and row.error is not None and row.error.reason in _REFUSED
        reads = row.failing_reads if row is not None else None
        refused = refused or (reads is not None and reads.reason == Reason.INVALID_CREDENTIALS)
        soon = refused or isinstance(read.credentials, UnusableCredentials)
        return age >= (READ_SOON_SECONDS if soon else max(READ_AGAIN_SECONDS, _PACES * self._plan.report_seconds))

    async def _refresh(self, dataset: NodeDataset) -> None:
        before = self._read.get(dataset.uid)
        try:
            read = await self._resolve(dataset, before if before and before.source == _source(dataset) else None)
        except KubeError as error:
            # Earlier credentials stay valid. A dataset without any waits, and the loop retries in seconds.
            log.warning("the credentials of %s/%s cannot be read: %s", dataset.namespace, dataset.name, error.message)
            return
        self._take(dataset, read)

    def _take(self, dataset: NodeDataset, read: _Read) -> None:
        self._read[dataset.uid] = read
        self._plan.take_credentials(dataset.uid, read.credentials)

    async def _resolve(self, dataset: NodeDataset, before: _Read | None) -> _Read:
        source, now = _source(dataset), self._clock()
        reference = dataset.source.credentials
        if source.in_folder:
            return _Read(source, self._grants.folders(dataset.namespace), now)
        if reference is not None and reference.secret_ref is not None:
            return _Read(source, await self._secret(dataset.namespace, reference.secret_ref.name), now)
        if reference is not None and reference.service_account is not None:
            return await self._web_identity(dataset, reference.service_account, source, before)
        return _Read(source, self._grants.without_credentials(dataset.namespace, dataset.anonymous), now)

    async def _secret(self, namespace: str, name: str) -> Credentials:
        try:
            return identity.from_secret(namespace, name, await self._get(SECRETS, namespace, name))
        except NotFound:
            return identity.secret_not_found(namespace, name)
        except Forbidden:
            return identity.secret_forbidden(namespace, name)

    async def _get(self, kind: Kind, namespace: str, name: str) -> Object:
        return await self._account.ask(lambda kube: kube.get(kind, name, namespace))

    async def _web_identity(self, dataset: NodeDataset, name: str, source: _Named, before: _Read | None) -> _Read:
        now, namespace = self._clock(), dataset.namespace
        try:
            role = identity.role_arn(namespace, name, await self._get(SERVICE_ACCOUNTS, namespace, name))
            if isinstance(role, UnusableCredentials):
                return _Read(source, role, now)
            if _still_good(before, role, now):
                assert before is not None, "checked by _still_good"
                return _Read(source, before.credentials, now, before.renew)
            token, expires = await self._token(namespace, name)
        except NotFound:
            return _Read(source, identity.service_account_not_found(namespace, name), now)
        except Forbidden:
            return _Read(source, identity.service_account_forbidden(namespace, name), now)
        session = identity.session_name(namespace, dataset.name, self._account.node)
        credentials = WebIdentityCredentials(role, token, format_time(expires.timestamp()), session=session)
        renew = now + identity.renew_after(self._today(), expires, TOKEN_SECONDS)
        return _Read(source, credentials, now, renew)

    async def _token(self, namespace: str, name: str) -> tuple[str, datetime]:
        body = {"spec": {"audiences": [names.WEB_IDENTITY_AUDIENCE], "expirationSeconds": TOKEN_SECONDS}}
        answer = await self._account.ask(
            lambda kube: kube.create_subresource(SERVICE_ACCOUNTS, name, namespace, "token", body)
        )
        return answer["status"]["token"], datetime.fromisoformat(answer["status"]["expirationTimestamp"])


def _source(dataset: NodeDataset) -> _Named:
    in_folder = dataset.source.uri.startswith(_FOLDERS)
    return _Named(dataset.namespace, in_folder, dataset.source.credentials, dataset.anonymous)


def _shared(dataset: NodeDataset) -> object:
    """Return a key that Datasets with the same Secret share. For other Datasets the key is unique."""
    reference = dataset.source.credentials
    return _source(dataset) if reference is not None and reference.secret_ref is not None else dataset.uid


def _still_good(before: _Read | None, role: str, now: float) -> bool:
    return (
        before is not None
        and before.renew is not None
        and isinstance(before.credentials, WebIdentityCredentials)
        and before.credentials.role_arn == role
        and now < before.renew
    )

"""Makes aiobotocore sessions and clients with their credentials, endpoint and timeouts."""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from aiobotocore.config import AioConfig
from aiobotocore.credentials import AioRefreshableCredentials
from aiobotocore.session import AioSession
from botocore import UNSIGNED
from botocore.exceptions import BotoCoreError, ClientError
from botocore.utils import parse_timestamp

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.errors import InvalidCredentials, SourceError
from stoker_sidecar.store.buckets.s3_descriptions import BoundedHTTPSession, descriptions, read_descriptions
from stoker_sidecar.store.connection import USER_AGENT, ConnectionSettings, ca_file, proxy_for
from stoker_sidecar.store.core.s3_requests import AccessKeys, uses_virtual_host
from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire.credentials import (
    AmbientCredentials,
    AnonymousCredentials,
    Credentials,
    FolderGrant,
    StaticCredentials,
    UnusableCredentials,
    WebIdentityCredentials,
)

if TYPE_CHECKING:
    from types_aiobotocore_s3 import S3Client

_log = logging.getLogger(__name__)

# Seconds between two searches for credentials on a node without any. Its metadata service, or the webhook that mounts
# tokens into pods, may start after the first request.
_LOOK_AGAIN = 10.0
# Seconds between two searches for new keys. A search may ask STS or a metadata service.
_RENEW_AGAIN = 2.0
AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]  # a result of socket.getaddrinfo
KEEP_ALIVE = 12.0  # seconds that an idle connection stays open, aiobotocore's default
_turns: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]" = WeakKeyDictionary()
AMAZON_URL = "https://s3.amazonaws.com"  # for the proxies' rules if the source has no endpoint


@dataclass
class Identity:
    """An aiobotocore session, whether it signs requests, and the credentials from which it was made.

    The node's own credentials may become available late. Until then, requests are anonymous, and a background task
    searches again. ``clock``: seconds. ``fresh``: makes a new session with its credentials and returns whether it
    signs; None for keys that never change.
    """

    session: AioSession
    signed: bool
    credentials: Credentials
    clock: Callable[[], float] = time.monotonic
    fresh: Callable[[], Awaitable[tuple[AioSession, bool]]] | None = None
    _looked: float = field(init=False)
    _looking: "asyncio.Task[None] | None" = field(init=False, default=None)
    _renewed: float = field(init=False, default=float("-inf"))
    _renewing: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._looked = self.clock()

    async def keys(self) -> AccessKeys | None:
        """Return the current keys; None: anonymous. Raises botocore's errors if the keys cannot be renewed."""
        self.look_again()
        return await _keys_of(self.session) if self.signed else None

    async def renew(self, refused: AccessKeys | None) -> bool:
        """Ask the chain of credentials again after the store refused these keys; return True if the keys changed.

        Keys in files and tokens in volumes may be replaced during a mount. Concurrent callers share one search.
        """
        if self.fresh is None:
            return False
        async with self._renewing:
            try:
                if self.clock() - self._renewed >= _RENEW_AGAIN and await self.keys() == refused:
                    self._renewed = self.clock()
                    session, signed = await self.fresh()
                    if signed and await _keys_of(session) != refused:
                        self.session, self.signed = session, signed
                return await self.keys() != refused
            except (BotoCoreError, ClientError, SourceError, OSError) as error:
                _log.warning("refused credentials cannot be renewed now: %s", error)
                return False

    def look_again(self) -> None:
        """Start a search for missing credentials, unless one was recent. Does not wait for it."""
        if self.signed or not isinstance(self.credentials, AmbientCredentials):
            return
        if self.clock() - self._looked >= _LOOK_AGAIN and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        try:
            self.signed = await self.session.get_credentials() is not None
        except BotoCoreError as error:
            _log.debug("no credentials of this node yet: %s", error)
        self._looked = self.clock()

    async def aclose(self) -> None:
        """Cancel the search for credentials."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])


async def _keys_of(session: AioSession) -> AccessKeys | None:
    credentials = await session.get_credentials()
    if credentials is None:
        return None
    now = await credentials.get_frozen_credentials()
    return AccessKeys(now.access_key or "", now.secret_key or "", now.token or "")


async def open_identity(source: Source, credentials: Credentials, settings: ConnectionSettings) -> Identity:
    """Make a session with its credentials.

    Raises InvalidCredentials if the required credentials are missing, and botocore's errors.
    """

    async def fresh() -> tuple[AioSession, bool]:
        async with _turn():
            session = _new_session()
        return session, await _is_signed(session, source, credentials, settings)

    renewable = isinstance(credentials, AmbientCredentials | WebIdentityCredentials)
    return Identity(*await fresh(), credentials, fresh=fresh if renewable else None)


async def open_client(
    source: Source, identity: Identity, settings: ConnectionSettings, stack: AsyncExitStack
) -> "S3Client":
    """Make an S3 client; ``stack`` closes it."""
    await in_thread(read_descriptions)  # otherwise the first client blocks the loop
    client = identity.session.create_client(
        "s3",
        region_name=source.region,
        endpoint_url=source.endpoint,
        verify=stack.enter_context(ca_file(identity.credentials)),
        config=_config(source, identity, settings),
    )
    async with _turn():
        return await stack.enter_async_context(client)


@asynccontextmanager
async def _turn() -> AsyncIterator[None]:
    """Limit this event loop to one botocore object at a time, with a turn for other tasks after each.

    A session and a client block the loop for 10 to 20 ms of CPU each. When 150 Datasets started at once on a busy node,
    the loop missed its heartbeat for 30 s, and the watchdog killed the fetcher repeatedly.
    """
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        yield
        await asyncio.sleep(0)


def _config(source: Source, identity: Identity, settings: ConnectionSettings) -> AioConfig:
    options: dict[str, Any] = {
        "user_agent": USER_AGENT,
        "http_session_cls": BoundedHTTPSession,
        # No retries here: the Retry of stoker_sidecar.store.base does them.
        "retries": {"total_max_attempts": 1},
        "connect_timeout": settings.connect_timeout,
        "read_timeout": settings.read_timeout,
        "s3": {"addressing_style": "virtual" if uses_virtual_host(source) else "path"},
        # A GET that needs a checksum requests it; ranges and listings have none.
        "response_checksum_validation": "when_required",
    }
    if not identity.signed:
        options["signature_version"] = UNSIGNED
    # With a proxy, the address is that of the proxy, which the node's owner chose.
    if proxy_for(source.endpoint or AMAZON_URL) is None:
        options["connector_args"] = {"keepalive_timeout": KEEP_ALIVE, "socket_factory": _allowed_socket(settings)}
    return AioConfig(**options)


def _allowed_socket(settings: ConnectionSettings) -> Callable[[AddressInfo], socket.socket]:
    """Return a factory of aiohttp's sockets that refuses forbidden addresses, independent of the host name."""

    def make(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        settings.check_addresses(str(address[0]), [str(address[0])])
        return socket.socket(family, kind, protocol)

    return make


async def _is_signed(
    session: AioSession, source: Source, credentials: Credentials, settings: ConnectionSettings
) -> bool:
    """Set the credentials of a session. Return True if it signs its requests."""
    match credentials:
        case UnusableCredentials(reason, message):
            raise InvalidCredentials(message, reason=reason)
        case StaticCredentials():
            session.set_credentials(
                credentials.access_key_id, credentials.secret_access_key, credentials.session_token or None
            )
            return True
        case WebIdentityCredentials():
            keys = await _assume_role(source, credentials, settings)
            session.register_component("credential_provider", _Resolved(keys))
            return True
        case AmbientCredentials():
            # One short attempt: without a metadata service, the bucket gets an anonymous request a second later.
            session.set_config_variable("metadata_service_timeout", 1)
            session.set_config_variable("metadata_service_num_attempts", 1)
            return await session.get_credentials() is not None
        case AnonymousCredentials() | FolderGrant():
            return False


def _new_session() -> AioSession:
    session = AioSession()
    session.register_component("data_loader", descriptions())
    # botocore's own parser takes 0.25 ms per timestamp: four minutes for a listing of a million objects.
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_timestamp)
    return session


def _timestamp(value: str | int | float) -> datetime:
    """Parse a time. Parse RFC 3339 (S3's listings) and HTTP dates here, which is fast; leave the rest to botocore."""
    text = str(value)
    try:
        return parsedate_to_datetime(text) if text.endswith("GMT") else datetime.fromisoformat(text)
    except ValueError:
        parsed: datetime = parse_timestamp(text)
        return parsed


@dataclass(frozen=True)
class _Resolved:
    """A credential provider with one identity, in place of botocore's chain of providers."""

    credentials: AioRefreshableCredentials

    async def load_credentials(self) -> AioRefreshableCredentials:
        return self.credentials


async def _assume_role(
    source: Source, credentials: WebIdentityCredentials, settings: ConnectionSettings
) -> AioRefreshableCredentials:
    """Make keys that renew themselves with the same token.

    The agent sends a new token before the token expires, which leads to a new client.
    """

    async def refresh() -> dict[str, str]:
        return await _exchange(source, credentials, settings)

    return AioRefreshableCredentials.create_from_metadata(
        metadata=await refresh(), refresh_using=refresh, method="assume-role-with-web-identity"
    )


async def _exchange(
    source: Source, credentials: WebIdentityCredentials, settings: ConnectionSettings
) -> dict[str, str]:
    config = AioConfig(
        signature_version=UNSIGNED,
        http_session_cls=BoundedHTTPSession,
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.read_timeout,
    )
    with ca_file(credentials) as trusted:
        client = _new_session().create_client(
            "sts", region_name=source.region, endpoint_url=settings.sts_endpoint, verify=trusted, config=config
        )
        async with client as sts:
            answer = await sts.assume_role_with_web_identity(
                RoleArn=credentials.role_arn,
                RoleSessionName=credentials.session,
                WebIdentityToken=credentials.token,
            )
    keys = answer["Credentials"]
    return {
        "access_key": keys["AccessKeyId"],
        "secret_key": keys["SecretAccessKey"],
        "token": keys["SessionToken"],
        "expiry_time": keys["Expiration"].isoformat(),
    }

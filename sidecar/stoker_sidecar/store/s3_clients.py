"""How aiobotocore sessions and clients are made: whose credentials, which endpoint, which timeouts."""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
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
from botocore.exceptions import BotoCoreError
from botocore.utils import parse_timestamp

from stoker_api.dataset_source import Source
from stoker_sidecar.errors import InvalidCredentials
from stoker_sidecar.store.bounded_session import BoundedHTTPSession
from stoker_sidecar.store.connection import USER_AGENT, ConnectionSettings, ca_file, proxy_for
from stoker_sidecar.store.core.s3_requests import AccessKeys, uses_virtual_host
from stoker_sidecar.store.s3_descriptions import descriptions
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

# Seconds until a node without credentials is asked for them again: its metadata service, or what mounts tokens into
# pods, may come up after the first request.
_LOOK_AGAIN = 10.0
AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]  # as socket.getaddrinfo gives it
KEEP_ALIVE = 12.0  # seconds that a connection stays open unused, aiobotocore's own default
_turns: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]" = WeakKeyDictionary()
AMAZON_URL = "https://s3.amazonaws.com"  # for the proxies' rules, where there is no endpoint


@dataclass
class Identity:
    """An aiobotocore session, whether its requests are signed, and the credentials that it was made of.

    The node's own credentials may come late: while there are none, they are looked for again, beside the requests that
    go out anonymously meanwhile. ``clock``: seconds.
    """

    session: AioSession
    signed: bool
    credentials: Credentials
    clock: Callable[[], float] = time.monotonic
    _looked: float = field(init=False)
    _looking: "asyncio.Task[None] | None" = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._looked = self.clock()

    async def keys(self) -> AccessKeys | None:
        """Return the present keys; None: anonymous. Raises what botocore raises when they cannot be renewed."""
        self.look_again()
        credentials = await self.session.get_credentials() if self.signed else None
        if credentials is None:
            return None
        now = await credentials.get_frozen_credentials()
        return AccessKeys(now.access_key or "", now.secret_key or "", now.token or "")

    def look_again(self) -> None:
        """Have credentials looked for that were not there, unless that was done a moment ago; waits for nothing."""
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
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])


async def open_identity(source: Source, credentials: Credentials, settings: ConnectionSettings) -> Identity:
    """Make a session that has its credentials.

    Raises InvalidCredentials when there is nothing to sign with and there should be, and what botocore raises.
    """
    async with _turn():
        session = _new_session()
    return Identity(session, await _is_signed(session, source, credentials, settings), credentials)


async def open_client(
    source: Source, identity: Identity, settings: ConnectionSettings, stack: AsyncExitStack
) -> "S3Client":
    """Make an S3 client, which ``stack`` closes."""
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
    """Let one of botocore's objects be made at a time in this event loop, which has a turn for others between two.

    A session and a client take 10 to 20 ms of CPU each, in one piece. With 150 Datasets that began at once the loop had
    no turn for its heartbeat in 30 s on a busy node, and the fetcher was killed for that, again and again.
    """
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        yield
        await asyncio.sleep(0)


def _config(source: Source, identity: Identity, settings: ConnectionSettings) -> AioConfig:
    options: dict[str, Any] = {
        "user_agent": USER_AGENT,
        "http_session_cls": BoundedHTTPSession,
        # No retries here: the Retry of stoker_sidecar.store.base does them where they can help.
        "retries": {"total_max_attempts": 1},
        "connect_timeout": settings.connect_timeout,
        "read_timeout": settings.read_timeout,
        "s3": {"addressing_style": "virtual" if uses_virtual_host(source) else "path"},
        # A GET that wants a checksum asks for it; ranges and listings have none.
        "response_checksum_validation": "when_required",
    }
    if not identity.signed:
        options["signature_version"] = UNSIGNED
    # Through a proxy the address is the proxy's, which the node's owner chose.
    if proxy_for(source.endpoint or AMAZON_URL) is None:
        options["connector_args"] = {"keepalive_timeout": KEEP_ALIVE, "socket_factory": _allowed_socket(settings)}
    return AioConfig(**options)


def _allowed_socket(settings: ConnectionSettings) -> Callable[[AddressInfo], socket.socket]:
    """Make what makes aiohttp's sockets: none to an address that no endpoint may have, whatever name led there."""

    def make(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        settings.check_addresses(str(address[0]), [str(address[0])])
        return socket.socket(family, kind, protocol)

    return make


async def _is_signed(
    session: AioSession, source: Source, credentials: Credentials, settings: ConnectionSettings
) -> bool:
    """Give a session its credentials; tells whether its requests are signed."""
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
            # One quick try: where there is no metadata service, the bucket is asked anonymously a second later.
            session.set_config_variable("metadata_service_timeout", 1)
            session.set_config_variable("metadata_service_num_attempts", 1)
            return await session.get_credentials() is not None
        case AnonymousCredentials() | FolderGrant():
            return False


def _new_session() -> AioSession:
    session = AioSession()
    session.register_component("data_loader", descriptions())
    # botocore's own parser takes 0.25 ms a timestamp: four minutes of a listing of a million objects.
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_timestamp)
    return session


def _timestamp(value: str | int | float) -> datetime:
    """Parse a time: RFC 3339, as S3 lists it, and HTTP's form here, since that is fast; others by botocore."""
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
    """Make keys that renew themselves from the same token.

    The agent sends a new token, and thereby has a new client made, before the token expires.
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

"""Who a node is to an object store, as resolved by the agent and used by the fetcher."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stoker_api.names import Reason


@dataclass(frozen=True)
class StaticCredentials:
    """Keys from a Secret. ``ca_pem``: bundle that signs the endpoint's certificate; empty: the system's."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    ca_pem: str = field(default="", repr=False)
    kind: Literal["static"] = "static"


@dataclass(frozen=True)
class WebIdentityCredentials:
    """A ServiceAccount token that STS exchanges for keys. ``token_expires_at``: RFC 3339."""

    role_arn: str
    token: str = field(repr=False)
    token_expires_at: str = ""
    ca_pem: str = field(default="", repr=False)
    kind: Literal["webIdentity"] = "webIdentity"


@dataclass(frozen=True)
class AmbientCredentials:
    """Whatever the node has (role, environment), else anonymous."""

    kind: Literal["ambient"] = "ambient"


@dataclass(frozen=True)
class UnusableCredentials:
    """The agent could not resolve them; ``reason`` and ``message`` say why."""

    reason: Reason
    message: str
    kind: Literal["error"] = "error"


Credentials = StaticCredentials | WebIdentityCredentials | AmbientCredentials | UnusableCredentials


def credentials_to_wire(credentials: Credentials) -> dict[str, str]:
    """The JSON form, without empty fields."""
    pairs = ((_camel(name), value) for name, value in vars(credentials).items())
    return {name: str(value) for name, value in pairs if value}


def credentials_from_wire(wire: Mapping[str, Any]) -> Credentials:
    """Raises ValueError with a sentence on an unknown kind or a missing field."""
    try:
        return _PARSERS[wire.get("kind", "")](wire)
    except KeyError as error:
        raise ValueError(f"credentials of kind {wire.get('kind')!r} lack {error}: the agent must send it") from None


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _static(wire: Mapping[str, Any]) -> Credentials:
    return StaticCredentials(
        access_key_id=wire["accessKeyId"],
        secret_access_key=wire["secretAccessKey"],
        session_token=wire.get("sessionToken", ""),
        ca_pem=wire.get("caPem", ""),
    )


def _web_identity(wire: Mapping[str, Any]) -> Credentials:
    return WebIdentityCredentials(
        role_arn=wire["roleArn"],
        token=wire["token"],
        token_expires_at=wire.get("tokenExpiresAt", ""),
        ca_pem=wire.get("caPem", ""),
    )


_PARSERS: dict[str, Callable[[Mapping[str, Any]], Credentials]] = {
    "static": _static,
    "webIdentity": _web_identity,
    "ambient": lambda wire: AmbientCredentials(),
    "error": lambda wire: UnusableCredentials(Reason(wire["reason"]), wire["message"]),
}

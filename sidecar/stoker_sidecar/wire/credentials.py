"""Who a node is to an object store, as resolved by the agent and used by the fetcher."""

from typing import Any

from msgspec import Struct

from stoker_api.names import Reason

_SECRET = frozenset({"secret_access_key", "session_token", "ca_pem", "token"})


class _Identity(Struct, frozen=True, tag_field="kind", rename="camel", omit_defaults=True):
    """What all credentials have in common.

    Their form on the wire, and that secrets are not shown when they are printed.
    """

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name not in _SECRET]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class StaticCredentials(_Identity, frozen=True, tag="static"):
    """Keys from a Secret. ``ca_pem``: bundle that signs the endpoint's certificate; empty: the system's."""

    access_key_id: str
    secret_access_key: str
    session_token: str = ""
    ca_pem: str = ""


class WebIdentityCredentials(_Identity, frozen=True, tag="webIdentity"):
    """A ServiceAccount token that STS exchanges for keys.

    ``token_expires_at``: RFC 3339. ``session``: who asks, as the store's audit log shows it.
    """

    role_arn: str
    token: str
    token_expires_at: str = ""
    ca_pem: str = ""
    session: str = "stoker"


class AmbientCredentials(_Identity, frozen=True, tag="ambient"):
    """Whatever the node has (role, environment), else anonymous."""


class AnonymousCredentials(_Identity, frozen=True, tag="anonymous"):
    """None: requests are not signed. ``hint``: what a refused Dataset may do about it, as a sentence."""

    hint: str = ""


class FolderGrant(_Identity, frozen=True, tag="folders"):
    """For file:// sources: the host folders that the Dataset's namespace may read."""

    folders: tuple[str, ...] = ()


class UnusableCredentials(_Identity, frozen=True, tag="error"):
    """Credentials that the agent could not resolve; ``reason`` and ``message`` say why."""

    reason: Reason
    message: str


Credentials = (
    StaticCredentials
    | WebIdentityCredentials
    | AmbientCredentials
    | AnonymousCredentials
    | FolderGrant
    | UnusableCredentials
)

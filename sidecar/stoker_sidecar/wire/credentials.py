"""A node's credentials for an object store. The agent resolves them, and the fetcher uses them."""

from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

from stoker_api.names import Reason

MOST_CA_BYTES = 64 * 1024  # of a CA bundle: some forty certificates
_SECRET = frozenset({"secret_access_key", "session_token", "ca_pem", "token"})


class _Identity(Struct, frozen=True, tag_field="kind", rename="camel", omit_defaults=True):
    """The common part of all credentials.

    It defines their wire form, and hides secrets when printed.
    """

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name not in _SECRET]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


@lru_cache(maxsize=256)
def _shared(pem: str) -> str:
    """Return the first of equal bundles, so that many Datasets with one Secret share one copy in memory."""
    return pem


class _Trusting(_Identity, frozen=True):
    """The common part of credentials with a CA bundle."""

    def __post_init__(self) -> None:
        if pem := getattr(self, "ca_pem", ""):
            force_setattr(self, "ca_pem", _shared(pem))


class StaticCredentials(_Trusting, frozen=True, tag="static"):
    """Keys from a Secret. ``ca_pem`` is the bundle for the endpoint's certificate; empty: the system's."""

    access_key_id: str
    secret_access_key: str
    session_token: str = ""
    ca_pem: str = ""


class WebIdentityCredentials(_Trusting, frozen=True, tag="webIdentity"):
    """A ServiceAccount token that STS exchanges for keys.

    ``token_expires_at`` is RFC 3339. ``session`` is the name in the store's audit log.
    """

    role_arn: str
    token: str
    token_expires_at: str = ""
    ca_pem: str = ""
    session: str = "stoker"


class AmbientCredentials(_Identity, frozen=True, tag="ambient"):
    """The node's credentials (role, environment), else anonymous."""


class AnonymousCredentials(_Identity, frozen=True, tag="anonymous"):
    """Unsigned requests. ``hint`` is advice for a refused Dataset, as a sentence."""

    hint: str = ""


class FolderGrant(_Identity, frozen=True, tag="folders"):
    """For file:// sources: the host folders that the Dataset's namespace may read."""

    folders: tuple[str, ...] = ()


class UnusableCredentials(_Identity, frozen=True, tag="error"):
    """Credentials that the agent could not resolve, with ``reason`` and ``message``."""

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

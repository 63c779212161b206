"""What can go wrong with the API server: one tree, in which every foreign error is translated at the edge."""

# The classes bear the API server's own reasons, as ``kubectl`` prints them.
# ruff: noqa: N818

from collections.abc import Mapping
from typing import Any

_TOO_MANY_REQUESTS = 429
_FIRST_SERVER_ERROR = 500


class KubeError(Exception):
    """The API server said no, or could not be asked.

    ``status`` is the HTTP status (0: no answer), ``reason`` the API server's CamelCase word, ``message`` its sentence.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def temporary(self) -> bool:
        """Whether the same request may succeed later with nothing changed by us."""
        return False


class NotFound(KubeError):
    """No such object, or no such kind: its CRD is not installed."""


class AlreadyExists(KubeError):
    """An object of this name is there already."""


class Conflict(KubeError):
    """The object changed since it was read (resourceVersion), or its UID is another one."""


class Forbidden(KubeError):
    """RBAC or an admission policy refuses this caller."""


class Unauthorized(KubeError):
    """The API server does not know this caller: the token or certificate is wrong or has expired."""


class Invalid(KubeError):
    """The object or the request is malformed."""


class Expired(KubeError):
    """The resourceVersion or the page token is too old: list again."""


class Unavailable(KubeError):
    """The API server cannot be reached or asks to come back later; ``retry_after`` is in seconds, 0 when unsaid."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(status, reason, message)
        self.retry_after = retry_after

    @property
    def temporary(self) -> bool:
        """Always."""
        return True


class ConfigError(KubeError):
    """No usable kubeconfig, and not inside a cluster."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "ConfigError", message)


_BY_STATUS: Mapping[int, type[KubeError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    415: Invalid,
    422: Invalid,
}


def from_status(status: int, body: Mapping[str, Any], retry_after: float = 0.0) -> KubeError:
    """Return the error of a ``metav1.Status`` body and its HTTP status."""
    reason = str(body.get("reason") or "Unknown")
    message = str(body.get("message") or f"The API server answered with HTTP status {status} and no message.")
    if status == _TOO_MANY_REQUESTS or status >= _FIRST_SERVER_ERROR:
        return Unavailable(status, reason, message, retry_after)
    if reason == "AlreadyExists":
        return AlreadyExists(status, reason, message)
    return _BY_STATUS.get(status, KubeError)(status, reason, message)

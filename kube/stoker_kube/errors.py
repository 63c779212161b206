"""Errors of the API server. The transport translates the errors of other libraries."""

# The class names are the reasons of the API server, as in the output of ``kubectl``.
# ruff: noqa: N818

from collections.abc import Mapping
from typing import Any

_TOO_MANY_REQUESTS, _TOO_LARGE = 429, 413
# Messages of etcd and its gRPC client for an object that is too large. The API server sends them with status 500.
_TOO_LARGE_WORDS = ("request is too large", "message larger than max")
_FIRST_SERVER_ERROR = 500
NO_ANSWER = "Unreachable"  # reason of an Unavailable without a status


class KubeError(Exception):
    """The API server refused a request, or did not answer.

    ``status``: HTTP status, 0 without an answer. ``reason``: CamelCase word. ``message``: sentence.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def temporary(self) -> bool:
        """True if the same request may succeed later."""
        return False

    @property
    def too_large(self) -> bool:
        """True if the request or the resulting object is too large for the API server or etcd."""
        return self.status == _TOO_LARGE or any(words in self.message for words in _TOO_LARGE_WORDS)


class NotFound(KubeError):
    """The object does not exist, or the CRD of its kind is not installed."""


class AlreadyExists(KubeError):
    """An object with this name exists."""


class Conflict(KubeError):
    """The object changed since it was read (resourceVersion), or its UID differs."""


class Forbidden(KubeError):
    """RBAC or an admission policy refuses this caller."""


class Unauthorized(KubeError):
    """The API server does not know this caller: the token or certificate is wrong or has expired."""


class Invalid(KubeError):
    """The object or the request is malformed."""


class Expired(KubeError):
    """The resourceVersion or the page token is too old. List again."""


class Unavailable(KubeError):
    """The API server is unreachable or overloaded. ``retry_after``: seconds, 0 if unknown."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(status, reason, message)
        self.retry_after = retry_after

    @property
    def temporary(self) -> bool:
        """True."""
        return True


class ConfigError(KubeError):
    """There is no usable kubeconfig and no ServiceAccount."""

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
    """Return the error for a ``metav1.Status`` body and an HTTP status."""
    reason = str(body.get("reason") or "Unknown")
    message = str(body.get("message") or f"The API server answered with HTTP status {status} and no message.")
    if status == _TOO_MANY_REQUESTS or status >= _FIRST_SERVER_ERROR:
        return Unavailable(status, reason, message, retry_after)
    if reason == "AlreadyExists":
        return AlreadyExists(status, reason, message)
    return _BY_STATUS.get(status, KubeError)(status, reason, message)

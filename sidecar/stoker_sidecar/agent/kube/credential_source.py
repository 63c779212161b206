"""Converts a Secret or a ServiceAccount into credentials for an object store.

Pure: objects in, credentials or a sentence out.
"""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from stoker_api import names
from stoker_api.names import Reason
from stoker_sidecar.wire.credentials import (
    MOST_CA_BYTES,
    Credentials,
    StaticCredentials,
    UnusableCredentials,
)

REQUIRED_KEYS = (names.SECRET_ACCESS_KEY_ID, names.SECRET_SECRET_ACCESS_KEY)
# Share of a token's lifetime. The kubelet renews projected tokens at the same share, which tolerates hours of API
# outage at the default lifetime.
RENEW_SHARE = 0.8
_MOST_BYTES = {
    names.SECRET_ACCESS_KEY_ID: 4096,
    names.SECRET_SECRET_ACCESS_KEY: 4096,
    names.SECRET_SESSION_TOKEN: 16 * 1024,
    names.SECRET_CA_CERTIFICATE: MOST_CA_BYTES,
}
_SHORTEN = dict.fromkeys(_MOST_BYTES, "write the key as the object store gave it") | {
    names.SECRET_CA_CERTIFICATE: "keep only the certificates that sign the endpoint's own"
}
_RECREATED = "it is read again every few seconds"


def from_secret(namespace: str, name: str, secret: Mapping[str, Any]) -> Credentials:
    """Return the static keys of a Secret object (its ``data`` is base64), or an error with its missing keys."""
    encoded: Mapping[str, str] = secret.get("data") or {}
    for key, most in _MOST_BYTES.items():
        if (size := len(encoded.get(key, "").rstrip("=")) * 3 // 4) > most:
            what = f"{key} in Secret {namespace}/{name} has {size} bytes, and {most} are allowed"
            return UnusableCredentials(Reason.INVALID_CREDENTIALS, f"{what}: {_SHORTEN[key]}; {_RECREATED}")
    data = {key: _text(encoded[key]) for key in _MOST_BYTES if key in encoded}
    missing = [key for key in REQUIRED_KEYS if not data.get(key)]
    if missing:
        # The other keys are not named: people without access to the Secret see this message.
        return UnusableCredentials(
            Reason.SECRET_KEY_MISSING,
            f"Secret {namespace}/{name} lacks {' and '.join(missing)}: add them; {_RECREATED}",
        )
    return StaticCredentials(
        access_key_id=data[names.SECRET_ACCESS_KEY_ID],
        secret_access_key=data[names.SECRET_SECRET_ACCESS_KEY],
        session_token=data.get(names.SECRET_SESSION_TOKEN, ""),
        ca_pem=data.get(names.SECRET_CA_CERTIFICATE, ""),
    )


def secret_not_found(namespace: str, name: str) -> UnusableCredentials:
    """Report that the Secret does not exist."""
    return UnusableCredentials(
        Reason.SECRET_NOT_FOUND,
        f"Secret {namespace}/{name} does not exist: create it with the keys {' and '.join(REQUIRED_KEYS)}; "
        f"{_RECREATED}",
    )


def secret_forbidden(namespace: str, name: str) -> UnusableCredentials:
    """Report that the operator has not granted access yet, or that a person removed the grant."""
    return UnusableCredentials(
        Reason.SECRET_NOT_FOUND,
        f"Secret {namespace}/{name} may not be read by this node yet: the operator grants it with a RoleBinding "
        f"{names.CREDENTIALS_PREFIX}* in {namespace}; if this persists, check that the operator runs",
    )


def service_account_not_found(namespace: str, name: str) -> UnusableCredentials:
    """Report that the ServiceAccount does not exist."""
    return UnusableCredentials(
        Reason.SERVICE_ACCOUNT_NOT_FOUND,
        f"ServiceAccount {namespace}/{name} does not exist: create it with the annotation "
        f"{names.ANNOTATION_ROLE_ARN}; {_RECREATED}",
    )


def service_account_forbidden(namespace: str, name: str) -> UnusableCredentials:
    """Report that the operator has not granted access yet, or that a person removed the grant."""
    return UnusableCredentials(
        Reason.SERVICE_ACCOUNT_NOT_FOUND,
        f"ServiceAccount {namespace}/{name} may not be used by this node yet: the operator grants it with a "
        f"RoleBinding {names.CREDENTIALS_PREFIX}* in {namespace}; if this persists, check that the operator runs",
    )


def role_arn(namespace: str, name: str, account: Mapping[str, Any]) -> str | UnusableCredentials:
    """Return the role of a ServiceAccount object, or an error with the missing annotation."""
    role = (account["metadata"].get("annotations") or {}).get(names.ANNOTATION_ROLE_ARN, "")
    return role or UnusableCredentials(
        Reason.INVALID_CREDENTIALS,
        f"ServiceAccount {namespace}/{name} names no role: annotate it with "
        f"{names.ANNOTATION_ROLE_ARN}=arn:aws:iam::ACCOUNT:role/ROLE",
    )


def session_name(namespace: str, dataset: str, node: str) -> str:
    """Return the session name for STS and the store's audit log: at most 64 valid characters."""
    return f"{namespace[:19]}.{dataset[:19]}@{node.partition('.')[0][:24]}"


def renew_after(now: datetime, expires: datetime, asked: float, share: float = RENEW_SHARE) -> float:
    """Return the seconds until a token should be renewed.

    ``expires`` is a time of the server's clock; ``asked`` is the requested lifetime in seconds. ``now`` is this node's
    clock; a remaining lifetime beyond ``asked`` is the clock's error.
    """
    return min((expires - now).total_seconds(), asked) * share


def _text(value: str) -> str:
    """Decode, without the newline that ``echo`` adds. Invalid text counts as absent."""
    try:
        return base64.b64decode(value, validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        return ""

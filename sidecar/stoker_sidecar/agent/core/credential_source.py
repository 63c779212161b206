"""What a Secret or a ServiceAccount says about who the node is to an object store.

Pure: objects in, credentials or a sentence out.
"""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from stoker_api import names
from stoker_api.names import Reason
from stoker_sidecar.wire.credentials import Credentials, StaticCredentials, UnusableCredentials

REQUIRED_KEYS = (names.SECRET_ACCESS_KEY_ID, names.SECRET_SECRET_ACCESS_KEY)
# Of a token's life; the kubelet renews projected tokens at the same share, which leaves hours of API outage at the
# default life.
RENEW_SHARE = 0.8
_RECREATED = "it is read again every few seconds"


def from_secret(namespace: str, name: str, secret: Mapping[str, Any]) -> Credentials:
    """Return the static keys of a Secret object (its ``data`` is base64), or which keys it lacks."""
    data = {key: _text(value) for key, value in (secret.get("data") or {}).items()}
    missing = [key for key in REQUIRED_KEYS if not data.get(key)]
    if missing:
        has = ", ".join(sorted(data)) or "no keys at all"
        return UnusableCredentials(
            Reason.SECRET_KEY_MISSING,
            f"Secret {namespace}/{name} lacks {' and '.join(missing)} (it has {has}): add them; {_RECREATED}",
        )
    return StaticCredentials(
        access_key_id=data[names.SECRET_ACCESS_KEY_ID],
        secret_access_key=data[names.SECRET_SECRET_ACCESS_KEY],
        session_token=data.get(names.SECRET_SESSION_TOKEN, ""),
        ca_pem=data.get(names.SECRET_CA_CERTIFICATE, ""),
    )


def secret_not_found(namespace: str, name: str) -> UnusableCredentials:
    """Say that there is no such Secret."""
    return UnusableCredentials(
        Reason.SECRET_NOT_FOUND,
        f"Secret {namespace}/{name} does not exist: create it with the keys {' and '.join(REQUIRED_KEYS)}; "
        f"{_RECREATED}",
    )


def secret_forbidden(namespace: str, name: str) -> UnusableCredentials:
    """Say that the operator has not granted it yet, or someone removed the grant."""
    return UnusableCredentials(
        Reason.SECRET_NOT_FOUND,
        f"Secret {namespace}/{name} may not be read by this node yet: the operator grants it with a RoleBinding "
        f"{names.CREDENTIALS_PREFIX}* in {namespace}; if this stays, check that the operator runs",
    )


def service_account_not_found(namespace: str, name: str) -> UnusableCredentials:
    """Say that there is no such ServiceAccount."""
    return UnusableCredentials(
        Reason.SERVICE_ACCOUNT_NOT_FOUND,
        f"ServiceAccount {namespace}/{name} does not exist: create it with the annotation "
        f"{names.ANNOTATION_ROLE_ARN}; {_RECREATED}",
    )


def service_account_forbidden(namespace: str, name: str) -> UnusableCredentials:
    """Say that the operator has not granted it yet, or someone removed the grant."""
    return UnusableCredentials(
        Reason.SERVICE_ACCOUNT_NOT_FOUND,
        f"ServiceAccount {namespace}/{name} may not be used by this node yet: the operator grants it with a "
        f"RoleBinding {names.CREDENTIALS_PREFIX}* in {namespace}; if this stays, check that the operator runs",
    )


def role_arn(namespace: str, name: str, account: Mapping[str, Any]) -> str | UnusableCredentials:
    """Return the role that a ServiceAccount object names, or what to write on it."""
    role = (account["metadata"].get("annotations") or {}).get(names.ANNOTATION_ROLE_ARN, "")
    return role or UnusableCredentials(
        Reason.INVALID_CREDENTIALS,
        f"ServiceAccount {namespace}/{name} names no role: annotate it with "
        f"{names.ANNOTATION_ROLE_ARN}=arn:aws:iam::ACCOUNT:role/ROLE",
    )


def session_name(namespace: str, dataset: str, node: str) -> str:
    """Return who asks, as STS and the store's audit log name it: at most 64 characters, none that it refuses."""
    return f"{namespace[:19]}.{dataset[:19]}@{node.partition('.')[0][:24]}"


def renew_after(now: datetime, expires: datetime, asked: float, share: float = RENEW_SHARE) -> float:
    """Return the seconds until a token should be renewed.

    ``expires``: by the server's clock; ``asked``: seconds that it should live.

    ``now`` is this node's clock: what it adds to ``asked`` is its own error.
    """
    return min((expires - now).total_seconds(), asked) * share


def _text(value: str) -> str:
    """Decode, without the newline that ``echo`` leaves; what is no text counts as absent."""
    try:
        return base64.b64decode(value, validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        return ""

"""AWS Signature Version 4 for a request without a body, since botocore's signer doubles the time of a small GET.

Source of the method: "Authenticating Requests: Using the Authorization Header", Amazon S3 API Reference. The tests
compare it with botocore's signer.
"""

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

_PAYLOAD = hashlib.sha256(b"").hexdigest()
_TERMINATOR = "aws4_request"


@dataclass(frozen=True)
class AccessKeys:
    """The keys that requests are signed with; ``session_token`` is empty for keys that do not expire."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


def signed(
    method: str, host: str, path: str, query: str, headers: Mapping[str, str], keys: AccessKeys, region: str, now: float
) -> dict[str, str]:
    """Return the headers, whose names are in lower case, with those that sign the request.

    ``method``: GET or HEAD. ``path`` and ``query`` are as they are sent, percent-encoded once; ``query`` has at most
    one parameter. ``now``: Unix time.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    all_headers = {**headers, "host": host, "x-amz-content-sha256": _PAYLOAD, "x-amz-date": stamp}
    if keys.session_token:
        all_headers["x-amz-security-token"] = keys.session_token
    names = sorted(all_headers)
    lines = "".join(f"{name}:{all_headers[name]}\n" for name in names)
    request = f"{method}\n{path}\n{query}\n{lines}\n{';'.join(names)}\n{_PAYLOAD}"
    scope = f"{stamp[:8]}/{region}/s3/{_TERMINATOR}"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    signature = _hmac(_signing_key(keys.secret_access_key, stamp[:8], region), text).hex()
    all_headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access_key_id}/{scope}, "
        f"SignedHeaders={';'.join(names)}, Signature={signature}"
    )
    return all_headers


# A node has a few identities at a time; each key is good for a day.
@lru_cache(maxsize=64)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", _TERMINATOR):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")

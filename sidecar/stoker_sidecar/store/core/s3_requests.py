"""Where an S3 request goes, in path style or virtual-host style, and how it is signed.

The signature is AWS Signature Version 4 for a request without a body; botocore's signer doubles the time of a small
GET. Source of the method: "Authenticating Requests: Using the Authorization Header", Amazon S3 API Reference. The tests
compare addresses and signatures with botocore's.
"""

import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import quote, urlsplit

from stoker_api.dataset_source import AddressingStyle, Source

AMAZON = "Amazon S3"
# DNS suffix of each of Amazon's partitions, by how its regions' names begin.
_SUFFIXES = {
    "cn-": "amazonaws.com.cn",
    "eusc-": "amazonaws.eu",
    "us-iso-": "c2s.ic.gov",
    "us-isob-": "sc2s.sgov.gov",
    "eu-isoe-": "cloud.adc-e.uk",
    "us-isof-": "csp.hci.ic.gov",
}
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
# A bucket of S3 Express One Zone: it needs its own kind of session, which only botocore knows.
_DIRECTORY_BUCKET = re.compile(r".*--x-s3")
_NO_BODY = hashlib.sha256(b"").hexdigest()  # of every request here
_TERMINATOR = "aws4_request"


@dataclass(frozen=True)
class BucketAddress:
    """Where a bucket is reached.

    ``endpoint`` is as people know it; ``host`` is the Host header, without a default port; ``root`` is the path before
    a key.
    """

    bucket: str
    region: str
    endpoint: str
    scheme: str
    host: str
    root: str

    def path(self, key: str) -> str:
        """Return the path of an object, percent-encoded as the signature wants it."""
        return self.root + quote(key, safe="/~")

    @property
    def bucket_path(self) -> str:
        """Return the path of the bucket itself, as the signature wants it."""
        return self.root.rstrip("/") or "/"


def uses_virtual_host(source: Source) -> bool:
    """Tell the addressing style; Auto means path style at a named endpoint, virtual-host style at Amazon."""
    if source.addressing_style is AddressingStyle.AUTO:
        return not source.endpoint
    return source.addressing_style is AddressingStyle.VIRTUAL


def is_directory_bucket(bucket: str) -> bool:
    """Tell whether a bucket is one of S3 Express One Zone, by its name."""
    return _DIRECTORY_BUCKET.fullmatch(bucket) is not None


def bucket_address(source: Source, bucket: str) -> BucketAddress:
    """Find where a bucket is reached, as botocore does."""
    url = urlsplit((source.endpoint or f"https://s3.{source.region}.{_suffix(source.region)}").rstrip("/"))
    host = url.netloc.removesuffix(_DEFAULT_PORTS[url.scheme])
    place = bucket, source.region, source.endpoint or AMAZON, url.scheme
    # No certificate covers a name with more dots than one before the endpoint's.
    if uses_virtual_host(source) and not (url.scheme == "https" and "." in bucket):
        return BucketAddress(*place, f"{bucket}.{host}", "/")
    return BucketAddress(*place, host, f"/{quote(bucket)}/")


def _suffix(region: str) -> str:
    return next((suffix for prefix, suffix in _SUFFIXES.items() if region.startswith(prefix)), "amazonaws.com")


def canonical_query(parameters: Mapping[str, str]) -> str:
    """Return a query as it is sent and as the signature wants it: by the order of names, percent-encoded. Pure."""
    return "&".join(f"{quote(name, safe='~')}={quote(parameters[name], safe='~')}" for name in sorted(parameters))


@dataclass(frozen=True)
class AccessKeys:
    """The keys that requests are signed with; ``session_token`` is empty for keys that do not expire."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


def environment_keys(environment: Mapping[str, str]) -> AccessKeys | None:
    """Return the keys that an environment has and that do not expire, which come first in AWS's chain; else None. Pure.

    Half of a pair, and keys that say when they expire, are left to botocore.
    """
    key, secret = environment.get("AWS_ACCESS_KEY_ID", ""), environment.get("AWS_SECRET_ACCESS_KEY", "")
    if not (key and secret) or environment.get("AWS_CREDENTIAL_EXPIRATION"):
        return None
    token = environment.get("AWS_SESSION_TOKEN") or environment.get("AWS_SECURITY_TOKEN") or ""
    return AccessKeys(key, secret, token)


def signed(
    method: str, host: str, path: str, query: str, headers: Mapping[str, str], keys: AccessKeys, region: str, now: float
) -> dict[str, str]:
    """Return the headers, whose names are in lower case, with those that sign the request.

    ``method``: GET or HEAD. ``path`` and ``query`` are as they are sent, percent-encoded once; ``query`` is canonical.
    ``now``: Unix time.
    """
    stamp = _stamp(int(now))
    all_headers = {**headers, "host": host, "x-amz-content-sha256": _NO_BODY, "x-amz-date": stamp}
    if keys.session_token:
        all_headers["x-amz-security-token"] = keys.session_token
    ordered, names = _ordered(tuple(all_headers))
    lines = "".join([f"{name}:{all_headers[name]}\n" for name in ordered])
    request = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{_NO_BODY}"
    scope = f"{stamp[:8]}/{region}/s3/{_TERMINATOR}"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    signature = _hmac(_signing_key(keys.secret_access_key, stamp[:8], region), text).hex()
    all_headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return all_headers


@lru_cache(maxsize=64)  # a GET's headers are mostly those of the one before
def _ordered(names: tuple[str, ...]) -> tuple[list[str], str]:
    """Return the names of headers in order, and joined as the signature has them."""
    ordered = sorted(names)
    return ordered, ";".join(ordered)


@lru_cache(maxsize=4)  # a thousand requests a second have the same one
def _stamp(now: int) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))


# A node has a few identities at a time; each key is good for a day.
@lru_cache(maxsize=64)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", _TERMINATOR):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")

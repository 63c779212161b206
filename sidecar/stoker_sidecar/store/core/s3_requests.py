"""Addresses of S3 requests, in path style or virtual-host style, and their signatures.

The signature is AWS Signature Version 4 for a request without a body. botocore's signer would double the time of a
small GET. Source: "Authenticating Requests: Using the Authorization Header", Amazon S3 API Reference. The tests compare
addresses and signatures with botocore's.
"""

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeVar
from urllib.parse import quote, urlsplit

from stoker_api.datasets.dataset_source import AddressingStyle, Source
from stoker_sidecar.errors import InvalidCredentials, SourceError

AMAZON = "Amazon S3"
# DNS suffix of each of Amazon's partitions, by the prefix of its regions' names.
_SUFFIXES = {
    "cn-": "amazonaws.com.cn",
    "eusc-": "amazonaws.eu",
    "us-iso-": "c2s.ic.gov",
    "us-isob-": "sc2s.sgov.gov",
    "eu-isoe-": "cloud.adc-e.uk",
    "us-isof-": "csp.hci.ic.gov",
}
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
# A bucket of S3 Express One Zone. It needs a special session, which only botocore supports.
_DIRECTORY_BUCKET = re.compile(r".*--x-s3")
_NO_BODY = hashlib.sha256(b"").hexdigest()  # of every request here
_TERMINATOR = "aws4_request"


@dataclass(frozen=True)
class BucketAddress:
    """The address of a bucket.

    ``endpoint``: its name in messages; ``host``: the Host header, without a default port; ``root``: the path before a
    key.
    """

    bucket: str
    region: str
    endpoint: str
    scheme: str
    host: str
    root: str

    def path(self, key: str) -> str:
        """Return the path of an object, percent-encoded as the signature requires."""
        return self.root + quote(key, safe="/~")

    @property
    def bucket_path(self) -> str:
        """Path of the bucket itself, as the signature requires."""
        return self.root.rstrip("/") or "/"


def uses_virtual_host(source: Source) -> bool:
    """Return True for virtual-host style. Auto means path style at a named endpoint, virtual-host style at Amazon."""
    if source.addressing_style is AddressingStyle.AUTO:
        return not source.endpoint
    return source.addressing_style is AddressingStyle.VIRTUAL


def is_directory_bucket(bucket: str) -> bool:
    """Return True if the bucket's name is one of S3 Express One Zone."""
    return _DIRECTORY_BUCKET.fullmatch(bucket) is not None


def bucket_address(source: Source, bucket: str) -> BucketAddress:
    """Return the address of a bucket, by the same rules as botocore."""
    url = urlsplit((source.endpoint or f"https://s3.{source.region}.{_suffix(source.region)}").rstrip("/"))
    host = url.netloc.removesuffix(_DEFAULT_PORTS[url.scheme])
    place = bucket, source.region, source.endpoint or AMAZON, url.scheme
    # A wildcard certificate covers only one label before the endpoint's name.
    if uses_virtual_host(source) and not (url.scheme == "https" and "." in bucket):
        return BucketAddress(*place, f"{bucket}.{host}", "/")
    return BucketAddress(*place, host, f"/{quote(bucket)}/")


def _suffix(region: str) -> str:
    return next((suffix for prefix, suffix in _SUFFIXES.items() if region.startswith(prefix)), "amazonaws.com")


def canonical_query(parameters: Mapping[str, str]) -> str:
    """Return a query for the request and the signature: sorted by name and percent-encoded. Pure."""
    return "&".join(f"{quote(name, safe='~')}={quote(parameters[name], safe='~')}" for name in sorted(parameters))


@dataclass(frozen=True)
class AccessKeys:
    """The keys that sign requests. ``session_token`` is empty for keys that do not expire."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


def environment_keys(environment: Mapping[str, str]) -> AccessKeys | None:
    """Return the environment's keys without an expiration, or None. They come first in AWS's chain. Pure.

    botocore handles half a pair, and keys with an expiration.
    """
    key, secret = environment.get("AWS_ACCESS_KEY_ID", ""), environment.get("AWS_SECRET_ACCESS_KEY", "")
    if not (key and secret) or environment.get("AWS_CREDENTIAL_EXPIRATION"):
        return None
    token = environment.get("AWS_SESSION_TOKEN") or environment.get("AWS_SECURITY_TOKEN") or ""
    return AccessKeys(key, secret, token)


def signed(
    method: str, host: str, path: str, query: str, headers: Mapping[str, str], keys: AccessKeys, region: str, now: float
) -> dict[str, str]:
    """Return the headers plus those that sign the request. All names are in lower case.

    ``method``: GET or HEAD. ``path`` and ``query``: as sent, percent-encoded once; ``query`` is canonical. ``now``:
    Unix time.
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


@lru_cache(maxsize=64)  # most GETs have the same headers as the previous one
def _ordered(names: tuple[str, ...]) -> tuple[list[str], str]:
    """Return the sorted names of headers, and the names joined for the signature."""
    ordered = sorted(names)
    return ordered, ";".join(ordered)


@lru_cache(maxsize=4)  # all requests of a second share it
def _stamp(now: int) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")


# A node has a few identities at a time. Each key is valid for a day.
@lru_cache(maxsize=64)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", _TERMINATOR):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


T = TypeVar("T")
KeySource = Callable[[], Awaitable[AccessKeys | None]]  # asked before each request; None: not signed
# Asks the chain of credentials again after the store refused these keys; returns True if the keys changed.
RenewKeys = Callable[[AccessKeys | None], Awaitable[bool]]


async def with_present_keys(
    request: Callable[[], Awaitable[T]],
    keys: KeySource,
    renew: RenewKeys | None,
    refusals: tuple[type[SourceError], ...] = (InvalidCredentials,),
) -> T:
    """Send ``request`` and return its result. Send it once more if its keys are refused and have changed by then.

    ``renew``: None for keys that never change. ``refusals``: errors that can mean refused keys. Raises SourceError.
    """
    if renew is None:
        return await request()
    used = await keys()
    try:
        return await request()
    except refusals:
        if not await renew(used):
            raise
    return await request()

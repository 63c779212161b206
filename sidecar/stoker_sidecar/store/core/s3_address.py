"""Where a bucket's objects are: scheme, host and path, in path style or virtual-host style."""

import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from stoker_api.dataset import AddressingStyle, Source

AMAZON = "Amazon S3"
# DNS suffix of each of Amazon's partitions, by how its regions' names begin; the tests compare it with botocore's
# table.
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

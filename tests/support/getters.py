"""A GET client of a bucket that a server on loopback simulates."""

import ssl

from stoker_sidecar.store.buckets.s3_get import S3Getter
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.s3_requests import BucketAddress


def anonymous_getter(host: str, settings: ConnectionSettings | None = None) -> S3Getter:
    """Make a client for the bucket b at ``host``, a name and a port, over plain HTTP. The caller closes it."""
    address = BucketAddress("b", "us-east-1", f"http://{host}", "http", host, "/b/")
    return S3Getter(address, _anonymous, settings or ConnectionSettings(), ssl.create_default_context())


async def _anonymous() -> None:
    return None

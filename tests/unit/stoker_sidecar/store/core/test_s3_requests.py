"""The address and signature of an S3 request, compared with botocore."""

import os
import string
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore import UNSIGNED
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials, EnvProvider
from botocore.session import Session
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.datasets.dataset_source import AddressingStyle, Source
from stoker_sidecar.store.core.s3_requests import (
    AccessKeys,
    bucket_address,
    canonical_query,
    environment_keys,
    is_directory_bucket,
    signed,
)
from tests.support.cases import cases

PRINTABLE = st.text(string.ascii_letters + string.digits + "/+=", min_size=1, max_size=40)


@given(
    method=st.sampled_from(["GET", "HEAD"]),
    key=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=50),
    secret=PRINTABLE,
    token=st.one_of(st.just(""), PRINTABLE),
    version=st.one_of(st.just(""), PRINTABLE),
)
def test_a_signature_is_the_one_that_botocore_makes(
    method: str, key: str, secret: str, token: str, version: str
) -> None:
    address = bucket_address(Source(uri="s3://bucket", endpoint="http://server:9000"), "bucket")
    query = f"versionId={version.translate({43: '%2B', 47: '%2F', 61: '%3D'})}" if version else ""
    headers = {"range": "bytes=0-9", "if-match": '"abc"', "x-amz-checksum-mode": "ENABLED"}
    request = AWSRequest(
        method, f"http://server:9000{address.path(key)}" + (f"?{query}" if query else ""), headers=headers
    )
    S3SigV4Auth(Credentials("id", secret, token or None), "s3", "eu-west-1").add_auth(request)
    stamp = datetime.strptime(request.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    keys = AccessKeys("id", secret, token)
    ours = signed(method, address.host, address.path(key), query, headers, keys, "eu-west-1", stamp.timestamp())
    assert ours["authorization"] == request.headers["Authorization"]


@given(
    st.dictionaries(
        st.sampled_from(["prefix", "list-type", "continuation-token", "key-marker", "versions", "encoding-type"]),
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30),
        min_size=1,
    )
)
def test_a_listing_is_signed_as_botocore_signs_it(parameters: dict[str, str]) -> None:
    address = bucket_address(Source(uri="s3://bucket", endpoint="http://server:9000"), "bucket")
    request = AWSRequest("GET", f"http://server:9000{address.bucket_path}", params=parameters)
    S3SigV4Auth(Credentials("id", "secret"), "s3", "eu-west-1").add_auth(request)
    stamp = datetime.strptime(request.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    query, keys = canonical_query(parameters), AccessKeys("id", "secret")
    ours = signed("GET", address.host, address.bucket_path, query, {}, keys, "eu-west-1", stamp)
    assert ours["authorization"] == request.headers["Authorization"]


PAIR = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}


@cases(
    "environment",
    PAIR,
    PAIR | {"AWS_SESSION_TOKEN": "t"},
    PAIR | {"AWS_SECURITY_TOKEN": "t"},
    PAIR | {"AWS_PROFILE": "another"},
)
def test_plain_keys_of_the_environment_are_those_that_botocore_takes(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    theirs = EnvProvider().load()
    assert theirs is not None
    keys = theirs.get_frozen_credentials()
    assert environment_keys(os.environ) == AccessKeys(keys.access_key or "", keys.secret_key or "", keys.token or "")


@cases("environment", {}, {"AWS_ACCESS_KEY_ID": "id"}, PAIR | {"AWS_CREDENTIAL_EXPIRATION": "2026-11-23T00:00:00Z"})
def test_what_is_no_pair_of_plain_keys_is_left_to_botocore(environment: dict[str, str]) -> None:
    assert environment_keys(environment) is None


_SESSION = Session()


def _botocores(source: Source, bucket: str) -> str:
    style: Any = {AddressingStyle.AUTO: "path" if source.endpoint else "virtual"}.get(
        source.addressing_style, source.addressing_style.value.lower()
    )
    client: Any = _SESSION.create_client(
        "s3",
        region_name=source.region,
        endpoint_url=source.endpoint,
        config=Config(signature_version=UNSIGNED, s3={"addressing_style": style}),
    )
    url = urlsplit(client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}))
    return f"{url.scheme}://{url.netloc}{url.path}"


# One region of each of Amazon's partitions, and each style at a custom endpoint.
@cases(
    "source, bucket",
    *(
        (Source(uri="s3://x", region=region), "bucket")
        for region in (
            "eu-west-1",
            "us-gov-west-1",
            "cn-north-1",
            "us-iso-east-1",
            "us-isob-east-1",
            "eu-isoe-west-1",
        )
    ),
    (Source(uri="s3://x", region="us-isof-south-1"), "bucket"),
    (Source(uri="s3://x", region="eusc-de-east-1"), "bucket"),
    (Source(uri="s3://x", region="eu-west-1"), "dotted.bucket"),
    (Source(uri="s3://x", endpoint="http://server:9000"), "bucket"),
    (Source(uri="s3://x", endpoint="https://server:443/"), "bucket"),
    (Source(uri="s3://x", endpoint="http://server:80"), "dotted.bucket"),
    (Source(uri="s3://x", endpoint="https://server", addressing_style=AddressingStyle.VIRTUAL), "bucket"),
    (Source(uri="s3://x", endpoint="https://server", addressing_style=AddressingStyle.VIRTUAL), "dotted.bucket"),
    (Source(uri="s3://x", region="eu-west-1", addressing_style=AddressingStyle.PATH), "bucket"),
)
def test_an_address_is_the_one_that_botocore_uses(source: Source, bucket: str) -> None:
    address = bucket_address(source, bucket)
    theirs = _botocores(source, bucket).replace(":443/", "/").replace(":80/", "/")
    assert f"{address.scheme}://{address.host}{address.path('k')}" == theirs


def test_a_bucket_of_s3_express_is_known_by_its_name() -> None:
    assert [is_directory_bucket(name) for name in ("data--usw2-az1--x-s3", "data")] == [True, False]

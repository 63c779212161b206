"""How an S3 request is addressed and signed, compared with botocore, and how its response is judged."""

import string
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore import UNSIGNED
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.session import Session
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.backoff import BackoffPolicy
from stoker_api.dataset import AddressingStyle, Source
from stoker_api.names import Reason
from stoker_sidecar.errors import CorruptBody, SidecarError, SourceChanged, Throttled
from stoker_sidecar.store.core.s3_requests import AccessKeys, bucket_address, is_directory_bucket, signed
from stoker_sidecar.store.core.s3_responses import ExpectedRange, ResponseHead, check_response, etag_may_be_md5
from stoker_sidecar.store.error_responses import ErrorResponse, parse_error_response, response_error

PRINTABLE = st.text(string.ascii_letters + string.digits + "/+=", min_size=1, max_size=40)
EXPECTED = ExpectedRange("s3://b/k", 100, 50, "e1")


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


def _botocores(source: Source, bucket: str) -> str:
    style: Any = {AddressingStyle.AUTO: "path" if source.endpoint else "virtual"}.get(
        source.addressing_style, source.addressing_style.value.lower()
    )
    client: Any = Session().create_client(
        "s3",
        region_name=source.region,
        endpoint_url=source.endpoint,
        config=Config(signature_version=UNSIGNED, s3={"addressing_style": style}),
    )
    url = urlsplit(client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}))
    return f"{url.scheme}://{url.netloc}{url.path}"


# One region of each of Amazon's partitions, and each style at an endpoint of one's own.
@pytest.mark.parametrize(
    ("source", "bucket"),
    [
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
    ],
)
def test_an_address_is_the_one_that_botocore_uses(source: Source, bucket: str) -> None:
    address = bucket_address(source, bucket)
    theirs = _botocores(source, bucket).replace(":443/", "/").replace(":80/", "/")
    assert f"{address.scheme}://{address.host}{address.path('k')}" == theirs


def test_a_bucket_of_s3_express_is_known_by_its_name() -> None:
    assert [is_directory_bucket(name) for name in ("data--usw2-az1--x-s3", "data")] == [True, False]


@pytest.mark.parametrize(
    "response",
    [
        ResponseHead(206, "bytes 100-149/1000", 50, '"e1"'),
        ResponseHead(206, "bytes 100-149/*", None, 'W/"e1"'),
        ResponseHead(206, "bytes 100-149/1000", 50, ""),  # a server that tells no ETag
    ],
)
def test_what_was_asked_for_is_taken(response: ResponseHead) -> None:
    check_response(EXPECTED, response)


def test_a_whole_object_may_come_without_a_range() -> None:
    check_response(ExpectedRange("s3://b/k", 0, 50, "e1"), ResponseHead(200, "", 50, '"e1"'))


@pytest.mark.parametrize(
    "response",
    [
        ResponseHead(200, "", 1000, '"e1"'),  # Range ignored
        ResponseHead(206, "bytes 0-49/1000", 50, '"e1"'),
        ResponseHead(206, "", 50, '"e1"'),
        ResponseHead(206, "bytes 100-139/140", 40, '"e1"'),
        ResponseHead(206, "bytes 100-149/1000", 40, '"e1"'),
    ],
)
def test_other_bytes_than_those_asked_for_are_refused(response: ResponseHead) -> None:
    with pytest.raises(CorruptBody, match="s3://b/k"):
        check_response(EXPECTED, response)


def test_a_server_that_ignores_if_match_does_not_pass_another_object_off() -> None:
    with pytest.raises(SourceChanged, match="ETag e2 where e1 was listed"):
        check_response(EXPECTED, ResponseHead(206, "bytes 100-149/1000", 50, '"e2"'))


@pytest.mark.parametrize(
    ("encryption", "algorithm", "may_be"),
    [("", "", True), ("AES256", "", True), ("aws:kms", "", False), ("aws:kms:dsse", "", False), ("", "AES256", False)],
)
def test_an_encrypted_objects_etag_is_no_md5(encryption: str, algorithm: str, may_be: bool) -> None:
    assert etag_may_be_md5(encryption, algorithm) is may_be


@pytest.mark.parametrize(
    ("response", "reason", "temporary", "says"),
    [
        (ErrorResponse(403, "RequestTimeTooSkewed"), Reason.INVALID_CREDENTIALS, True, "clock"),
        (ErrorResponse(400, "ExpiredToken"), Reason.INVALID_CREDENTIALS, True, "expired"),
        (ErrorResponse(403, "SignatureDoesNotMatch"), Reason.INVALID_CREDENTIALS, False, "AWS_SECRET_ACCESS_KEY"),
        (ErrorResponse(403, "AccessDenied"), Reason.ACCESS_DENIED, False, "s3:GetObject"),
        (ErrorResponse(403, "InvalidObjectState"), Reason.INVALID_SPEC, False, "archived"),
        (ErrorResponse(404, "NoSuchBucket"), Reason.BUCKET_NOT_FOUND, False, "no bucket 'b'"),
        (ErrorResponse(404, "NoSuchKey"), Reason.OBJECT_GONE, False, "deleted"),
        (ErrorResponse(412, "PreconditionFailed"), Reason.SOURCE_CHANGED, False, "refresh"),
        (ErrorResponse(301, "PermanentRedirect", region="eu-west-1"), Reason.INVALID_SPEC, False, "region eu-west-1"),
        (ErrorResponse(302), Reason.INVALID_SPEC, False, "elsewhere"),
        (ErrorResponse(429), Reason.THROTTLED, True, "fewer requests"),
        (ErrorResponse(503, "SlowDown"), Reason.THROTTLED, True, "fewer requests"),
        (ErrorResponse(503), Reason.SERVER_ERROR, True, "503"),
        (ErrorResponse(400, "RequestTimeout"), Reason.SERVER_ERROR, True, "RequestTimeout"),
        (ErrorResponse(400, "InvalidRequest", "no"), Reason.SERVER_ERROR, False, "no"),
    ],
)
def test_an_error_response_says_what_is_wrong_and_whether_waiting_helps(
    response: ErrorResponse, reason: Reason, temporary: bool, says: str
) -> None:
    error = response_error(response, "b", "k")
    assert (error.reason, error.temporary) == (reason, temporary)
    assert says in error.message


def test_an_error_response_is_parsed_from_s3s_xml_and_its_headers() -> None:
    body = "<?xml?><Error><Code>SlowDown</Code><Message>less &amp; less</Message></Error>"
    assert parse_error_response(503, body, "eu-west-1", "7") == ErrorResponse(
        503, "SlowDown", "less & less", "eu-west-1", 7.0
    )


@pytest.mark.parametrize("retry_after", ["", "-1", "Wed, 21 Oct 2015 07:28:00 GMT", "soon"])
def test_a_page_of_a_proxy_is_an_error_response_too(retry_after: str) -> None:
    assert parse_error_response(502, "<html>Bad Gateway</html>", "", retry_after) == ErrorResponse(502)


@pytest.mark.parametrize(("asked", "delay"), [(0.0, 0.1), (3.0, 3.1), (60.0, 5.1)])
def test_a_server_that_asks_for_a_pause_gets_it_up_to_the_cap(asked: float, delay: float) -> None:
    assert BackoffPolicy(base=0.2, cap=5.0).delay(0, 0.5, asked) == pytest.approx(delay)


def test_an_error_carries_the_pause_that_the_server_asked_for() -> None:
    error: SidecarError = response_error(ErrorResponse(503, "SlowDown", retry_after=7.0), "b")
    assert isinstance(error, Throttled)
    assert error.retry_after == 7.0

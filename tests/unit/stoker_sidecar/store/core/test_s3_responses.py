"""Validation of a response to an S3 request: the requested bytes, or an error with a message."""

import pytest

from stoker_api.backoff import BackoffPolicy
from stoker_api.names import Reason
from stoker_sidecar.errors import CorruptBody, SidecarError, SourceChanged, Throttled
from stoker_sidecar.store.core.s3_responses import (
    ErrorResponse,
    ExpectedRange,
    ResponseHead,
    check_response,
    etag_may_be_md5,
    parse_error_response,
    response_error,
)

EXPECTED = ExpectedRange("s3://b/k", 100, 50, "e1")


@pytest.mark.parametrize(
    "response",
    [
        ResponseHead(206, "bytes 100-149/1000", 50, '"e1"'),
        ResponseHead(206, "bytes 100-149/*", None, 'W/"e1"'),
        ResponseHead(206, "bytes 100-149/1000", 50, ""),  # a server without an ETag
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
        (ErrorResponse(503), Reason.THROTTLED, True, "503"),
        (ErrorResponse(503, "ServiceUnavailable"), Reason.THROTTLED, True, "ServiceUnavailable"),
        (ErrorResponse(503, "TotalQpsLimitExceeded"), Reason.THROTTLED, True, "fewer requests"),
        (ErrorResponse(400, "RequestThrottled"), Reason.THROTTLED, True, "fewer requests"),
        (ErrorResponse(503, "SlowDownRead"), Reason.SERVER_ERROR, True, "SlowDownRead"),
        (ErrorResponse(502), Reason.SERVER_ERROR, True, "502"),
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

"""Messages for the user of a workstation do not mention Secrets, Datasets or nodes."""

import pytest

from stoker_sidecar.errors import SourceError
from stoker_sidecar.local.reports.report import for_workstation, unsigned_words
from stoker_sidecar.store.core.s3_responses import (
    ErrorResponse,
    response_error,
    unreachable,
    untrusted,
    without_credentials,
)

ENDPOINT = "https://s3.here"
CODES = (
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "InvalidIdentityToken",
    "ExpiredToken",
    "ExpiredTokenException",
    "TokenRefreshRequired",
    "RequestTimeTooSkewed",
    "NoSuchBucket",
    "PermanentRedirect",
    "InvalidObjectState",
    "AccessDenied",
)
ERRORS = [response_error(ErrorResponse(403, code), "bucket") for code in CODES]
ERRORS += [
    response_error(ErrorResponse(301, region="eu-west-1"), "bucket"),
    response_error(ErrorResponse(412), "bucket", "key"),
]
ERRORS += [response_error(ErrorResponse(404, "NoSuchKey"), "bucket", "key")]
ERRORS += [without_credentials(response_error(ErrorResponse(403, "AccessDenied"), "bucket"))]
ERRORS += [unreachable(ENDPOINT, OSError("refused")), untrusted(ENDPOINT, OSError("self-signed"))]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.message[:60])
def test_no_sentence_speaks_of_a_cluster(error: SourceError) -> None:
    said = for_workstation(error.message)
    assert not [word for word in ("Secret", "Dataset", "source.", "node", "ServiceAccount") if word in said]


def test_wrong_keys_are_looked_for_where_they_came_from() -> None:
    said = for_workstation(response_error(ErrorResponse(403, "SignatureDoesNotMatch"), "bucket").message)
    assert said.endswith("check AWS_SECRET_ACCESS_KEY in the environment or in the profile (--profile), and --region")


def test_what_a_server_says_stays_as_it_is() -> None:
    assert for_workstation("s3://b/k answers 500 Oops: try later") == "s3://b/k answers 500 Oops: try later"


UNSIGNED = without_credentials(response_error(ErrorResponse(403, "AccessDenied"), "bucket")).message


def test_without_credentials_the_sentence_says_where_they_are_looked_for() -> None:
    assert for_workstation(UNSIGNED) == (
        "the bucket 'bucket' answers AccessDenied: no credentials were found in the environment, ~/.aws, SSO or this "
        "machine's role: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give --profile"
    )


def test_without_signing_the_sentence_names_the_option() -> None:
    assert unsigned_words(for_workstation(UNSIGNED)) == (
        "the bucket 'bucket' answers AccessDenied: the request had no credentials: leave out --no-sign-request"
    )

"""What users get for a Secret or ServiceAccount, right or wrong."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from stoker_api.names import Reason
from stoker_sidecar.agent.core import credential_source as identity
from stoker_sidecar.wire.credentials import StaticCredentials, UnusableCredentials


def secret(**data: bytes) -> dict[str, object]:
    return {"data": {key: base64.b64encode(value).decode() for key, value in data.items()}}


def test_a_whole_secret_gives_static_keys() -> None:
    body = secret(
        AWS_ACCESS_KEY_ID=b"id", AWS_SECRET_ACCESS_KEY=b"key", AWS_SESSION_TOKEN=b"token", **{"ca.crt": b"PEM"}
    )
    assert identity.from_secret("vision", "s3", body) == StaticCredentials("id", "key", "token", "PEM")


def test_a_newline_at_the_end_of_a_key_is_no_part_of_it() -> None:
    body = secret(AWS_ACCESS_KEY_ID=b"id\n", AWS_SECRET_ACCESS_KEY=b"key\n")
    assert identity.from_secret("vision", "s3", body) == StaticCredentials("id", "key")


def test_a_missing_key_is_named_with_what_is_there() -> None:
    found = identity.from_secret("vision", "s3", secret(AWS_ACCESS_KEY_ID=b"id", password=b"x"))
    assert isinstance(found, UnusableCredentials)
    assert found.reason is Reason.SECRET_KEY_MISSING
    assert "Secret vision/s3 lacks AWS_SECRET_ACCESS_KEY (it has AWS_ACCESS_KEY_ID, password)" in found.message


def test_an_empty_secret_lacks_both_keys() -> None:
    found = identity.from_secret("vision", "s3", {})
    assert isinstance(found, UnusableCredentials)
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (it has no keys at all)" in found.message


def test_a_key_that_is_no_text_counts_as_missing() -> None:
    found = identity.from_secret("vision", "s3", secret(AWS_ACCESS_KEY_ID=b"\xff\xfe", AWS_SECRET_ACCESS_KEY=b"key"))
    assert isinstance(found, UnusableCredentials)


def test_a_missing_secret_is_named_with_the_keys_that_it_needs() -> None:
    found = identity.secret_not_found("vision", "s3")
    assert found.reason is Reason.SECRET_NOT_FOUND
    assert "Secret vision/s3 does not exist" in found.message
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in found.message


def test_a_service_account_without_a_role_is_told_the_annotation() -> None:
    found = identity.role_arn("vision", "trainer", {"metadata": {}})
    assert isinstance(found, UnusableCredentials)
    assert "eks.amazonaws.com/role-arn=arn:aws:iam::" in found.message


@pytest.mark.parametrize(
    ("clock_error", "after"),
    [(0, 48 * 60), (-7200, 48 * 60), (1800, 24 * 60)],
    ids=["right", "two hours behind", "half an hour ahead"],
)
def test_a_token_is_renewed_at_four_fifths_of_its_life_or_before(clock_error: int, after: float) -> None:
    issued = datetime(2026, 1, 1, tzinfo=UTC)
    now = issued + timedelta(seconds=clock_error)
    assert identity.renew_after(now, issued + timedelta(hours=1), 3600) == after

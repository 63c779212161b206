"""Results and messages for a valid or invalid Secret or ServiceAccount."""

import base64
from datetime import UTC, datetime, timedelta

from stoker_api.names import Reason
from stoker_sidecar.agent.kube import credential_source as identity
from stoker_sidecar.wire.credentials import StaticCredentials, UnusableCredentials
from tests.support.cases import cases


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


@cases(
    "keys, missing",
    ({"AWS_ACCESS_KEY_ID": b"id", "prod-database-password": b"x"}, "AWS_SECRET_ACCESS_KEY"),
    ({}, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
)
def test_missing_keys_are_named_and_no_others(keys: dict[str, bytes], missing: str) -> None:
    found = identity.from_secret("vision", "s3", secret(**keys))
    assert isinstance(found, UnusableCredentials)
    assert (found.reason, found.message.partition(":")[0]) == (
        Reason.SECRET_KEY_MISSING,
        f"Secret vision/s3 lacks {missing}",
    )
    assert "prod-database-password" not in found.message


def test_a_key_that_is_no_text_counts_as_missing() -> None:
    found = identity.from_secret("vision", "s3", secret(AWS_ACCESS_KEY_ID=b"\xff\xfe", AWS_SECRET_ACCESS_KEY=b"key"))
    assert isinstance(found, UnusableCredentials)


@cases(
    "key, size, most", ("ca.crt", 65_540, 65_536), ("ca.crt", 900_000, 65_536), ("AWS_SESSION_TOKEN", 20_000, 16_384)
)
def test_a_key_that_is_too_large_is_named_with_its_size_and_is_not_decoded(key: str, size: int, most: int) -> None:
    body = secret(AWS_ACCESS_KEY_ID=b"id", AWS_SECRET_ACCESS_KEY=b"key", **{key: b"x" * size})
    found = identity.from_secret("vision", "s3", body)
    assert isinstance(found, UnusableCredentials)
    assert found.reason is Reason.INVALID_CREDENTIALS
    assert found.message.startswith(f"{key} in Secret vision/s3 has ")
    assert f"{most} are allowed" in found.message
    assert len(found.message) < 200


def test_the_largest_bundle_that_is_allowed_is_taken() -> None:
    body = secret(AWS_ACCESS_KEY_ID=b"id", AWS_SECRET_ACCESS_KEY=b"key", **{"ca.crt": b"x" * 65_536})
    assert isinstance(identity.from_secret("vision", "s3", body), StaticCredentials)


def test_a_missing_secret_is_named_with_the_keys_that_it_needs() -> None:
    found = identity.secret_not_found("vision", "s3")
    assert found.reason is Reason.SECRET_NOT_FOUND
    assert "Secret vision/s3 does not exist" in found.message
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in found.message


def test_a_service_account_without_a_role_is_told_the_annotation() -> None:
    found = identity.role_arn("vision", "trainer", {"metadata": {}})
    assert isinstance(found, UnusableCredentials)
    assert "eks.amazonaws.com/role-arn=arn:aws:iam::" in found.message


@cases("clock_error, after", right=(0, 48 * 60), two_hours_behind=(-7200, 48 * 60), half_an_hour_ahead=(1800, 24 * 60))
def test_a_token_is_renewed_at_four_fifths_of_its_life_or_before(clock_error: int, after: float) -> None:
    issued = datetime(2026, 1, 1, tzinfo=UTC)
    now = issued + timedelta(seconds=clock_error)
    assert identity.renew_after(now, issued + timedelta(hours=1), 3600) == after

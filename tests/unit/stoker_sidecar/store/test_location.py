"""What source.uri may name."""

from pathlib import Path

import pytest

from stoker_api.names import Reason
from stoker_sidecar.errors import InvalidSource
from stoker_sidecar.store.core.location import FolderLocation, S3Location, parse_location


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("s3://bucket", S3Location("bucket", "")),
        ("s3://bucket/", S3Location("bucket", "")),
        ("s3://bucket/p", S3Location("bucket", "p/")),
        ("s3://bucket/p/q/", S3Location("bucket", "p/q/")),
        ("file:///data/set%20one/", FolderLocation(Path("/data/set one"))),
    ],
)
def test_a_uri_names_a_folder(uri: str, location: S3Location | FolderLocation) -> None:
    assert parse_location(uri) == location


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("gs://bucket/p", Reason.UNSUPPORTED_SCHEME),
        ("bucket/p", Reason.UNSUPPORTED_SCHEME),
        ("s3://Bucket/p", Reason.MALFORMED_URI),
        ("s3:///p", Reason.MALFORMED_URI),
        ("file://host/p", Reason.MALFORMED_URI),
        ("file:///a/../etc", Reason.MALFORMED_URI),
    ],
)
def test_another_uri_is_refused_with_itself_in_the_sentence(uri: str, reason: Reason) -> None:
    with pytest.raises(InvalidSource) as raised:
        parse_location(uri)
    assert raised.value.reason is reason
    assert repr(uri) in raised.value.message

"""Valid values of source.uri."""

from pathlib import Path

import pytest

from stoker_api.names import Reason
from stoker_sidecar.errors import InvalidSource
from stoker_sidecar.store.core.location import FolderLocation, S3Location, named_instead, parse_location
from tests.support.cases import cases


@cases(
    "uri, location",
    ("s3://bucket", S3Location("bucket", "")),
    ("s3://bucket/", S3Location("bucket", "")),
    ("s3://bucket/p", S3Location("bucket", "p/")),
    ("s3://bucket/p/q/", S3Location("bucket", "p/q/")),
    ("file:///data/set%20one/", FolderLocation(Path("/data/set one"))),
)
def test_a_uri_names_a_folder(uri: str, location: S3Location | FolderLocation) -> None:
    assert parse_location(uri) == location


@cases(
    "uri, reason",
    ("gs://bucket/p", Reason.UNSUPPORTED_SCHEME),
    ("bucket/p", Reason.UNSUPPORTED_SCHEME),
    ("s3://Bucket/p", Reason.MALFORMED_URI),
    ("s3:///p", Reason.MALFORMED_URI),
    ("file://host/p", Reason.MALFORMED_URI),
    ("file:///a/../etc", Reason.MALFORMED_URI),
)
def test_another_uri_is_refused_with_itself_in_the_sentence(uri: str, reason: Reason) -> None:
    with pytest.raises(InvalidSource) as raised:
        parse_location(uri)
    assert raised.value.reason is reason
    assert repr(uri) in raised.value.message


@cases(
    "uri, write",
    ("s3a://data/models", "s3://data/models"),
    ("S3://data/models/", "s3://data/models/"),
    ("gs://data/models", "s3://data/models with source.endpoint"),
    ("arn:aws:s3:::data/models", "s3://data/models"),
    ("https://data.s3.amazonaws.com/models/a?X-Amz-Date=1", "s3://data/models/a"),
    ("https://my.data.s3.eu-west-1.amazonaws.com/models", "s3://my.data/models"),
    ("https://s3.us-east-1.amazonaws.com/data/models", "s3://data/models"),
    ("http://minio:9000/data/models", "s3://data/models with source.endpoint http://minio:9000"),
    ("/mnt/data", "file:///mnt/data"),
    ("./src", "file:///folder, an absolute path"),
    ("data/models", "s3://bucket/prefix/ or file:///folder"),
)
def test_another_programs_form_is_answered_with_ours(uri: str, write: str) -> None:
    with pytest.raises(InvalidSource) as raised:
        parse_location(uri)
    assert raised.value.message == f"source.uri {uri!r} is not supported: write {write}"


@cases(
    "path, keys, sentence",
    ("d/f.tar", ["d/f.tar"], "d/f.tar is an object, not a folder: write s3://b/d/ and source.include 'f.tar'"),
    ("f.tar", ["f.tar"], "f.tar is an object, not a folder: write s3://b/ and source.include 'f.tar'"),
    ("d/f[1]", ["d/f[1]"], "d/f[1] is an object, not a folder: write s3://b/d/ and source.include 'f[[]1]'"),
    ("x/*.tar", [], "x/*.tar is a pattern, not a folder: write s3://b/x/ and source.include '*.tar'"),
    ("x/**/*.tar", [], "x/**/*.tar is a pattern, not a folder: write s3://b/x/ and source.include '**/*.tar'"),
    ("x/{a}?", [], "x/{a}? is a pattern, not a folder: write s3://b/x/ and source.include '{a}?'"),
    (
        "x/part-",
        ["x/part-0"],
        "x/part- is no folder, but the beginning of keys such as 'x/part-0': write s3://b/x/ and source.include "
        "'part-*'",
    ),
    (
        "x/part-",
        ["x/part-0/a"],
        "x/part- is no folder, but the beginning of keys such as 'x/part-0/a': write s3://b/x/ and source.include "
        "'part-*/**'",
    ),
    ("m?versionId=1", [], "m?versionId=1 has a query: leave out '?versionId=1'"),
)
def test_what_is_no_folder_is_answered_with_what_to_write(path: str, keys: list[str], sentence: str) -> None:
    assert named_instead("s3://b/", path, keys) == f"s3://b/{sentence}"


@pytest.mark.parametrize("keys", [[], ["no/such/folder-two/x"]])
def test_of_a_folder_that_is_not_there_nothing_is_known(keys: list[str]) -> None:
    assert named_instead("s3://b/", "no/such/folder", keys) == ""

"""The parsed rows of a page of a listing, compared with botocore's parser."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.parsers import create_parser
from botocore.session import Session
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_sidecar.errors import ServerError
from stoker_sidecar.store.buckets.s3_pages import (
    PAGE_EVENTS,
    goes_on,
    latest_versions,
    listed_objects,
    marker,
    parse_page,
    take_contents,
    text_of,
)
from stoker_sidecar.version.objects import ListedObject
from tests.support.cases import cases

SHAPE: Any = Session().get_service_model("s3").operation_model("ListObjectsV2").output_shape
AMAZON = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC))
OBJECTS = st.tuples(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1),
    st.integers(0, 2**50),
    MOMENTS,
    st.text("0af-8"),
)


def _item(key: str, size: object, modified: str, etag: str) -> str:
    etag = f"&quot;{etag}&quot;"
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{modified}</LastModified><ETag>{etag}</ETag><Size>{size}</Size>"
        "<Owner><ID>Key</ID></Owner><StorageClass>STANDARD</StorageClass></Contents>"
    )


def _body(*items: str, encoding: str = "", space: str = AMAZON) -> bytes:
    encoding = f"<EncodingType>{encoding}</EncodingType>" if encoding else ""
    more = "<IsTruncated>true</IsTruncated><NextContinuationToken>1/a=&amp;</NextContinuationToken>"
    head = f"<?xml version='1.0'?><ListBucketResult{space}><Prefix>p/</Prefix>{encoding}{more}"
    return f"{head}{''.join(items)}</ListBucketResult>".encode()


def _page(body: bytes, status: int = 200) -> dict[str, Any]:
    response, customized = {"status_code": status, "headers": {}, "body": body}, dict[str, Any]()
    take_contents(response, customized)
    return {**create_parser("rest-xml").parse(response, SHAPE), **customized}


@settings(max_examples=40)
@given(st.lists(OBJECTS, max_size=5), st.sampled_from(["", AMAZON]))
def test_objects_are_those_that_botocore_reads(found: list[tuple[str, int, datetime, str]], space: str) -> None:
    items = [_item(key, size, moment.isoformat().replace("+00:00", "Z"), etag) for key, size, moment, etag in found]
    body = _body(*items, space=space)
    parsed = create_parser("rest-xml").parse({"status_code": 200, "headers": {}, "body": body}, SHAPE)
    expected = [
        (item["Key"].encode(), item["Size"], item["LastModified"], item["ETag"].strip('"'))
        for item in parsed.get("Contents", ())
    ]
    for page in (_page(body), parse_page(body)):
        read = listed_objects(page, "")
        assert [(item.path, item.size, _moment(item.mtime_ns), item.etag) for item in read] == expected


def _moment(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds // 10**9, UTC).replace(microsecond=nanoseconds // 1000 % 10**6)


def _versions(*items: str) -> Mapping[str, Any]:
    more = "<IsTruncated>true</IsTruncated><NextKeyMarker>p%2Fa+b</NextKeyMarker><EncodingType>url</EncodingType>"
    return parse_page(f"<ListVersionsResult{AMAZON}>{more}{''.join(items)}</ListVersionsResult>".encode())


def _version(key: str, version_id: str, latest: str) -> str:
    item = _item(key, 1, "2026-11-21T12:00:00Z", "e").replace("Contents>", "Version>")
    more = f"<VersionId>{version_id}</VersionId><IsLatest>{latest}</IsLatest></Version>"
    return item.replace("</Version>", more)


def test_of_versions_the_latest_are_objects_and_deleted_ones_are_none() -> None:
    deleted = "<DeleteMarker><Key>p/b</Key><VersionId>3</VersionId><IsLatest>true</IsLatest></DeleteMarker>"
    page = _versions(
        _version("p/a", "2", "true"), _version("p/a", "1", "false"), deleted, _version("p/b", "1", "false")
    )
    assert [(item.path, item.version_id) for item in latest_versions(page, "p/")] == [(b"a", "2")]


def test_the_next_page_of_versions_starts_at_the_decoded_key() -> None:
    assert marker(_versions(), "NextKeyMarker") == "p/a b"


@pytest.mark.parametrize("item", [_item("a", 1, "2026-11-21T12:00:00Z", "e"), _version("a", "v" * 2000, "true")])
def test_what_is_no_version_is_refused(item: str) -> None:
    with pytest.raises(ServerError, match="the listing holds what is no object"):
        latest_versions(_versions(item.replace("Contents>", "Version>")), "")


def test_the_rest_of_a_page_equals_that_of_botocore() -> None:
    body = _body(_item("p/a", 1, "2026-11-21T12:00:00Z", "e"), encoding="url")
    ours, botocores = parse_page(body), _page(body)
    for name in ("IsTruncated", "NextContinuationToken", "Prefix", "EncodingType"):
        assert ours[name] == botocores[name]


@cases("said, more", ("true", True), ("True", True), ("1", True), ("", True), ("false", False), (" FALSE ", False))
def test_only_the_word_false_ends_a_listing(said: str, more: bool) -> None:
    page = f"<ListBucketResult><IsTruncated>{said}</IsTruncated></ListBucketResult>".encode()
    assert parse_page(page)["IsTruncated"] is more
    assert goes_on(_page(page)) is more


@pytest.mark.parametrize("space", ["", AMAZON])
def test_the_text_below_the_root_is_found_in_any_name_space(space: str) -> None:
    body = f"<VersioningConfiguration{space}><Status>Enabled</Status></VersioningConfiguration>".encode()
    assert (text_of(body, "Status"), text_of(body, "MfaDelete")) == ("Enabled", "")


def test_everything_else_of_the_page_is_left_to_botocore() -> None:
    page = _page(_body(_item("p/a", 1, "2026-11-21T12:00:00Z", "e")))
    assert (page["IsTruncated"], page["NextContinuationToken"], page["Prefix"]) == (True, "1/a=&", "p/")
    assert "Contents" not in page


@given(st.binary(min_size=1))
def test_an_encoded_key_gives_the_raw_bytes_below_the_prefix(name: bytes) -> None:
    body = _body(_item(quote(b"p/" + name).replace("%20", "+"), 1, "2026-11-21T12:00:00Z", "e"), encoding="url")
    assert listed_objects(_page(body), "p/") == [ListedObject(name, 1, 1795262400_000_000_000, "e")]


@cases("modified", "2026-11-21T12:00:00", "Sat, 21 Nov 2026 12:00:00 GMT", "2026-11-21T13:00:00+01:00")
def test_dates_of_other_servers_are_read_too(modified: str) -> None:
    page = _page(_body(_item("a", 1, modified, "e")))
    assert listed_objects(page, "")[0].mtime_ns == 1795262400_000_000_000


@cases(
    "item",
    "<Contents><Key>a</Key><Size>1</Size><LastModified>2026-11-21T12:00:00Z</LastModified></Contents>",
    _item("a", "many", "2026-11-21T12:00:00Z", "e"),
    _item("a", 1, "some day", "e"),
    _item("a", 1, "1e300", "e"),
    _item("a", "9" * 5000, "2026-11-21T12:00:00Z", "e"),
    _item("a", 1, "2026-11-21T12:00:00Z", "e" * 2000),
    _item("a", 1, "some day", "e").replace("<Owner>", "<Deep>" * 5000 + "</Deep>" * 5000 + "<Owner>"),
)
def test_what_is_no_object_is_refused_and_shown(item: str) -> None:
    with pytest.raises(ServerError, match=r"the listing holds what is no object.*<Key>a</Key>") as raised:
        listed_objects(_page(_body(item, space="")), "")
    assert not raised.value.temporary


def test_what_is_nested_beside_the_objects_is_left_out_since_botocore_reads_it_by_recursion() -> None:
    page = _page(_body("<Deep>" * 20_000 + "</Deep>" * 20_000))
    assert page["IsTruncated"] is True


@pytest.mark.parametrize(("status", "body"), [(503, _body()), (200, b"<ListBucketResult><Contents>")])
def test_error_responses_and_broken_pages_stay_as_they_came(status: int, body: bytes) -> None:
    response, customized = {"status_code": status, "headers": {}, "body": body}, dict[str, Any]()
    take_contents(response, customized)
    assert (response["body"], customized) == (body, {})


def test_objects_are_taken_out_before_botocore_looks_whether_the_page_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[bytes] = []
    monkeypatch.setattr("botocore.handlers._looks_like_special_case_error", lambda status, body: looked.append(body))
    client = Session().create_client("s3", region_name="eu-west-1", config=Config(signature_version=UNSIGNED))
    client.meta.events.register(PAGE_EVENTS[0], take_contents)
    model = client.meta.service_model.operation_model("ListObjectsV2")
    response = {"status_code": 200, "headers": {}, "body": _body(_item("a", 1, "2026-11-21T12:00:00Z", "e"))}
    client.meta.events.emit(
        "before-parse.s3.ListObjectsV2", operation_model=model, response_dict=response, customized_response_dict={}
    )
    assert [b"Contents" in body for body in looked] == [False]

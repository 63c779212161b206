"""Pages of a list are decoded one object at a time."""

import json
from typing import Any

import pytest

from stoker_kube.pages import read_page
from stoker_kube.resources import PODS

TYPED = {"apiVersion": "v1", "kind": "Pod"}
ITEMS: list[dict[str, Any]] = [{"metadata": {"name": name}} for name in "abc"]


def content(items: object = ITEMS, **metadata: str) -> bytes:
    return json.dumps({"kind": "PodList", "metadata": metadata, "items": items}).encode()


def test_objects_of_a_page_have_apiversion_and_kind() -> None:
    objects = read_page(content()).objects(PODS)
    assert list(objects) == [TYPED | item for item in ITEMS]
    assert (len(objects), objects[1], objects[1:]) == (3, TYPED | ITEMS[1], [TYPED | item for item in ITEMS[1:]])


def test_the_metadata_of_a_page_has_the_continue_token() -> None:
    page = read_page(content(resourceVersion="7", **{"continue": "more"}))
    assert page.metadata == {"resourceVersion": "7", "continue": "more"}


@pytest.mark.parametrize("empty", [b"{}", b'{"metadata":null,"items":null}', b'{"items":[]}'])
def test_a_page_with_nothing_in_it_has_no_objects(empty: bytes) -> None:
    page = read_page(empty)
    assert (dict(page.metadata), list(page.objects(PODS))) == ({}, [])


@pytest.mark.parametrize("odd", [b"1e400", b'"\\ud800"', b"123456789012345678901234567890", b"NaN"])
def test_json_that_only_python_accepts_is_parsed_by_python(odd: bytes) -> None:
    items = b'[{"metadata":{"name":"a"},"spec":' + odd + b'},{"metadata":{"name":"b"}}]'
    found = list(read_page(b'{"items":' + items + b"}").objects(PODS))
    assert repr(found) == repr([TYPED | item for item in json.loads(items)])


def test_invalid_json_is_an_error() -> None:
    with pytest.raises(json.JSONDecodeError):
        read_page(b"<html>")

"""Pages of listings, read by ElementTree: 7 us of CPU an object, of which botocore's parser takes 100.

Directory buckets are listed by botocore, from whose pages the objects are taken before it parses them.

A listing of versions (ListObjectVersions) has a row for each version of an object, of which the latest counts, and rows
of objects that were deleted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from stoker_sidecar import errors
from stoker_sidecar.version.objects import ListedObject

# Of botocore's event ``before-parse``. With a star in place of ``s3``, our handler comes before botocore's own, which
# parses each page once more to see whether it is an error.
PAGE_EVENTS = ("before-parse.*.ListObjectsV2", "before-parse.*.ListObjectVersions")
_MOST_ETAG = 1024  # characters; S3's have 32, and a dash and a number behind
_TAKEN = "StokerContents"  # a name that no member of a response has
_FIELDS = ("Key", "Size", "LastModified", "ETag")
_VERSION_FIELDS = (*_FIELDS, "VersionId", "IsLatest")
_MOST_VERSION_ID = 1024  # bytes, as S3 says


def take_contents(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Handle botocore's PAGE_EVENTS: take the objects out of the page, and keep them for those who read it."""
    if response_dict["status_code"] != HTTPStatus.OK:
        return
    try:
        page = ElementTree.fromstring(response_dict["body"])
    except ElementTree.ParseError:
        return  # botocore says so
    name_space = "".join(page.tag.rpartition("}")[:2])
    tag = f"{name_space}{'Version' if page.tag == f'{name_space}ListVersionsResult' else 'Contents'}"
    contents = page.findall(tag)
    # Of the rest botocore gets what is flat: it reads what is nested by recursion.
    rest = Element(page.tag)
    rest.extend(item for item in page if item.tag != tag and not len(item))
    response_dict["body"] = ElementTree.tostring(rest)
    customized_response_dict[_TAKEN] = name_space, contents


def parse_page(body: bytes) -> Mapping[str, Any]:
    """Return a page of a listing as ``listed_objects``, ``latest_versions`` and ``marker`` read it.

    Of what is beside its objects only what is flat, as text, but for IsTruncated. Raises ServerError for what is none.
    """
    page = _parsed(body)
    name_space, name = _names(page)
    if name not in ("ListBucketResult", "ListVersionsResult"):
        sentence = f"a page of the listing is no listing but <{name[:100]}>: check source.endpoint"
        raise errors.ServerError(sentence, temporary=name == "Error")  # S3 may fail after it began to answer
    tag = f"{name_space}{'Version' if name == 'ListVersionsResult' else 'Contents'}"
    flat = {item.tag.removeprefix(name_space): item.text or "" for item in page if item.tag != tag and not len(item)}
    return {**flat, "IsTruncated": flat.get("IsTruncated") == "true", _TAKEN: (name_space, page.findall(tag))}


def text_of(body: bytes, name: str) -> str:
    """Return the text of an element right below the root; empty when there is none. Raises ServerError."""
    root = _parsed(body)
    return root.findtext(f"{_names(root)[0]}{name}") or ""


def _parsed(body: bytes) -> Element:
    try:
        return ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        sentence = f"a page of the listing is no XML ({error}): check source.endpoint"
        raise errors.ServerError(sentence, temporary=False) from error


def _names(root: Element) -> tuple[str, str]:
    """Return the name space as it stands before the tags of its elements, and the root's own name."""
    space, brace, name = root.tag.rpartition("}")
    return space + brace, name


def listed_objects(page: Mapping[str, Any], prefix: str) -> list[ListedObject]:
    """Return the objects of a parsed page, named below ``prefix``.

    Raises ServerError when one lacks what every object has.
    """
    return list(_read(page, prefix, _FIELDS))


def latest_versions(page: Mapping[str, Any], prefix: str) -> list[ListedObject]:
    """Return the objects of a parsed page of versions, with the ids of their latest ones, named below ``prefix``.

    Raises ServerError when one lacks what every version has.
    """
    return list(_read(page, prefix, _VERSION_FIELDS))


def marker(page: Mapping[str, Any], name: str) -> str:
    """Return a key by which a page of versions says where the next one begins, as text. Raises ServerError."""
    key = str(page.get(name) or "")
    if page.get("EncodingType") != "url":
        return key
    try:
        return unquote_to_bytes(key.replace("+", " ")).decode()
    except UnicodeDecodeError as error:
        sentence = f"a page of versions ends with a key that is not UTF-8: {key}"
        raise errors.ServerError(sentence, temporary=False) from error


def _read(page: Mapping[str, Any], prefix: str, fields: Iterable[str]) -> Iterator[ListedObject]:
    name_space, contents = cast("tuple[str, list[Element]]", page[_TAKEN])
    names = tuple(name_space + name for name in fields)
    # The encoding was asked for, so botocore leaves decoding to us: into raw bytes, so that a key that is not UTF-8 can
    # be counted.
    encoded, below = page.get("EncodingType") == "url", prefix.encode()
    for item in contents:
        key, *rest = texts = [item.findtext(name) for name in names]
        if None in texts:
            raise _no_object(item, f"one of {', '.join(fields)} is missing")
        if rest[3:] and rest[4] != "true":
            continue  # an older version
        yield _listed(item, str(key), [str(text) for text in rest[:4]], below, encoded=encoded)


def _listed(item: Element, key: str, rest: Sequence[str], prefix: bytes, *, encoded: bool) -> ListedObject:
    size, modified, etag, *ids = rest
    raw = unquote_to_bytes(key.replace("+", " ")) if encoded else key.encode()
    try:
        found = ListedObject(raw.removeprefix(prefix), int(size), _nanoseconds(modified), etag.strip('"'), *ids)
    except (ValueError, OverflowError, OSError) as error:  # the last two by times that no clock shows
        raise _no_object(item, str(error)) from error
    if len(found.etag) > _MOST_ETAG or len(found.version_id) > _MOST_VERSION_ID:
        raise _no_object(item, "its ETag or its version id is too long")
    return found


def _no_object(item: Element, why: str) -> errors.ServerError:
    flat = Element(item.tag)
    flat.extend(part for part in item if not len(part))
    shown = ElementTree.tostring(flat, encoding="unicode")[:500]
    return errors.ServerError(f"the listing holds what is no object ({why}): {shown}", temporary=False)


def _nanoseconds(modified: str) -> int:
    """Convert LastModified into nanoseconds since 1970.

    S3 gives whole seconds, some servers milliseconds; microseconds are exact in both.
    """
    try:
        moment = datetime.fromisoformat(modified)
    except ValueError:
        moment = parsedate_to_datetime(modified)  # HTTP's form
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (int(moment.timestamp()) * 1_000_000 + moment.microsecond) * 1000

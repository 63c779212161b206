"""Pages of listings: the objects are taken out before botocore parses one, 7 us of CPU for each where that takes 100."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from botocore.utils import parse_timestamp

from stoker_sidecar import errors
from stoker_sidecar.version.objects import ListedObject

# Of botocore's event ``before-parse``. With a star in place of ``s3``, our handler comes before botocore's own, which
# parses each page once more to see whether it is an error.
PAGE_EVENT = "before-parse.*.ListObjectsV2"
_MOST_ETAG = 1024  # characters; S3's have 32, and a dash and a number behind
_TAKEN = "StokerContents"  # a name that no member of a response has
_FIELDS = ("Key", "Size", "LastModified", "ETag")


def take_contents(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Handle botocore's PAGE_EVENT: take the objects out of the page, and keep them for ``listed_objects``."""
    if response_dict["status_code"] != HTTPStatus.OK:
        return
    try:
        page = ElementTree.fromstring(response_dict["body"])
    except ElementTree.ParseError:
        return  # botocore says so
    name_space = "".join(page.tag.rpartition("}")[:2])
    contents = page.findall(f"{name_space}Contents")
    # Of the rest botocore gets what is flat: it reads what is nested by recursion.
    rest = Element(page.tag)
    rest.extend(item for item in page if item.tag != f"{name_space}Contents" and not len(item))
    response_dict["body"] = ElementTree.tostring(rest)
    customized_response_dict[_TAKEN] = name_space, contents


def listed_objects(page: Mapping[str, Any], prefix: str) -> list[ListedObject]:
    """Return the objects of a parsed page, named below ``prefix``.

    Raises ServerError when one lacks what every object has.
    """
    name_space, contents = cast("tuple[str, list[Element]]", page[_TAKEN])
    names = tuple(name_space + name for name in _FIELDS)
    # The encoding was asked for, so botocore leaves decoding to us: into raw bytes, so that a key that is not UTF-8 can
    # be counted.
    encoded, below = page.get("EncodingType") == "url", prefix.encode()
    return [_listed(item, names, below, encoded=encoded) for item in contents]


def _listed(item: Element, names: Iterable[str], prefix: bytes, *, encoded: bool) -> ListedObject:
    key, size, modified, etag = map(item.findtext, names)
    if key is None or size is None or modified is None or etag is None:
        raise _no_object(item, f"one of {', '.join(_FIELDS)} is missing")
    raw = unquote_to_bytes(key.replace("+", " ")) if encoded else key.encode()
    try:
        found = ListedObject(raw.removeprefix(prefix), int(size), _nanoseconds(modified), etag.strip('"'))
    except (ValueError, OverflowError, OSError, RuntimeError) as error:  # botocore's parser of times raises all of them
        raise _no_object(item, str(error)) from error
    if len(found.etag) > _MOST_ETAG:
        raise _no_object(item, "its ETag is too long")
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
        moment = parse_timestamp(modified)  # twenty times slower, and reads all that was ever taken for a date
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (int(moment.timestamp()) * 1_000_000 + moment.microsecond) * 1000

"""Parses pages of listings with ElementTree: 7 us of CPU per object, where botocore's parser takes 100.

botocore lists directory buckets. Stoker takes the objects out of these pages before botocore parses them.

A listing of versions (ListObjectVersions) has a row for each version of an object, of which the latest counts, and rows
for deleted objects.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from itertools import pairwise
from typing import Any, NamedTuple, cast
from urllib.parse import quote
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from stoker_sidecar import errors
from stoker_sidecar.store.core.key_coding import FORM, PERCENT, RAW, KeyCoding
from stoker_sidecar.version.objects import ListedObject, SkipReason

# botocore's events before parsing. With a star in place of ``s3``, our handler runs before botocore's own, which parses
# each page again to check for an error.
PAGE_EVENTS = ("before-parse.*.ListObjectsV2", "before-parse.*.ListObjectVersions")
_MOST_ETAG = 1024  # characters; S3's have 32, perhaps followed by a dash and a number
_TAKEN = "StokerContents"  # a name that no member of a response has
_ROOT = "StokerPage"  # likewise
_TRUNCATED = "StokerTruncated"  # likewise
_REWRITTEN = "StokerRewritten"  # likewise; True if the keys were percent-encoded here
_FIELDS = ("Key", "Size", "LastModified", "ETag")
_VERSION_FIELDS = (*_FIELDS, "VersionId", "IsLatest")
_MOST_VERSION_ID = 1024  # bytes, S3's limit
_MOST_KEY = 8192  # characters of an encoded key to request: S3's keys have at most 1,024 bytes


class ListedKey(NamedTuple):
    """An encoded key from a page, with the ETag and version id of its object."""

    text: str
    etag: str
    version_id: str


def take_contents(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Handle botocore's PAGE_EVENTS: take the objects out of the page and keep them for ``listed_objects``."""
    if response_dict["status_code"] != HTTPStatus.OK:
        return
    try:
        page = ElementTree.fromstring(response_dict["body"])
    except ElementTree.ParseError:
        return  # botocore reports it
    name_space = "".join(page.tag.rpartition("}")[:2])
    tag = f"{name_space}{'Version' if page.tag == f'{name_space}ListVersionsResult' else 'Contents'}"
    contents = page.findall(tag)
    # Pass only flat elements of the rest to botocore, since it reads nested ones by recursion.
    rest = Element(page.tag)
    rest.extend(item for item in page if item.tag != tag and not len(item))
    response_dict["body"] = ElementTree.tostring(rest)
    customized_response_dict[_TAKEN] = name_space, contents
    flag = page.findtext(f"{name_space}IsTruncated")  # botocore treats any value but "true" as the end
    customized_response_dict[_TRUNCATED] = _is_truncated({} if flag is None else {"IsTruncated": flag})


def parse_page(body: bytes) -> Mapping[str, Any]:
    """Parse a page of a listing for ``listed_objects``, ``latest_versions`` and ``marker``.

    Apart from the objects, it returns flat elements only, as text. IsTruncated is a bool: any text but "false" means
    that more pages follow, so that an unusual server's listing never ends early. Raises ServerError if the body is not
    a listing.
    """
    page, rewritten = _parsed_keys(body)
    name_space, name = _names(page)
    if name not in ("ListBucketResult", "ListVersionsResult"):
        sentence = f"a page of the listing is no listing but <{name[:100]}>: check source.endpoint"
        raise errors.ServerError(sentence, temporary=name == "Error")  # S3 may fail after the start of its response
    tag = f"{name_space}{'Version' if name == 'ListVersionsResult' else 'Contents'}"
    flat = {item.tag.removeprefix(name_space): item.text or "" for item in page if item.tag != tag and not len(item)}
    return {
        **flat,
        "IsTruncated": _is_truncated(flat),
        "SaysTruncated": "IsTruncated" in flat,
        _TAKEN: (name_space, page.findall(tag)),
        _ROOT: page,
        _REWRITTEN: rewritten,
    }


def goes_on(page: Mapping[str, Any]) -> bool:
    """Return True if a page that botocore parsed is not the last one."""
    return bool(page.get(_TRUNCATED, page.get("IsTruncated")))


def _is_truncated(flat: Mapping[str, str]) -> bool:
    return flat.get("IsTruncated", "").strip().lower() != "false"


def states_encoding(page: Mapping[str, Any]) -> bool:
    """Return True if a page states that its keys are encoded for URLs."""
    return str(page.get("EncodingType", "")).strip().lower() == "url"


def own_coding(page: Mapping[str, Any]) -> KeyCoding | None:
    """Return the encoding of a page whose keys were rewritten here; None if the server's encoding applies."""
    return PERCENT if page.get(_REWRITTEN) else None


def odd_keys(page: Mapping[str, Any], is_odd: Callable[[str], bool]) -> Iterator[ListedKey]:
    """Yield the objects of a parsed page whose keys, still encoded, are odd."""
    name_space, contents = page[_TAKEN]
    names = [name_space + name for name in ("Key", "ETag", "VersionId")]
    for item in contents:
        if is_odd(text := item.findtext(names[0]) or "") and len(text) <= _MOST_KEY:
            etag, version_id = (item.findtext(name) or "" for name in names[1:])
            yield ListedKey(text, etag.strip('"'), version_id)


def last_key(page: Mapping[str, Any], coding: KeyCoding) -> bytes:
    """Return the greatest key of a parsed page, including deleted objects; empty for a page without keys."""
    return max((key for keys in _keys(page, coding) for key in keys), default=b"")


def is_sorted(page: Mapping[str, Any], coding: KeyCoding) -> bool:
    """Return True if the keys of a parsed page ascend by bytes. Keys of deleted objects form a separate sequence."""
    return all(before <= after for keys in _keys(page, coding) for before, after in pairwise(keys))


def _keys(page: Mapping[str, Any], coding: KeyCoding) -> Iterator[list[bytes]]:
    name_space, _ = page[_TAKEN]
    for name in ("Contents", "Version", "DeleteMarker"):
        items = page[_ROOT].findall(name_space + name)
        yield [coding.decode(item.findtext(f"{name_space}Key") or "") for item in items]


def text_of(body: bytes, name: str) -> str:
    """Return the text of an element directly below the root; empty if it is missing. Raises ServerError."""
    root = _parsed(body)
    return root.findtext(f"{_names(root)[0]}{name}") or ""


def _parsed_keys(body: bytes) -> tuple[Element, bool]:
    """Parse a page. Also return True if its keys had to be percent-encoded before. Raises ServerError."""
    try:
        return _parsed(body), False
    except errors.ServerError:
        if (rewritten := with_encoded_keys(body)) == body:
            raise
        return _parsed(rewritten), True


def _parsed(body: bytes) -> Element:
    try:
        return ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        sentence = f"a page of the listing is no XML ({error}): check source.endpoint"
        raise errors.ServerError(sentence, temporary=False) from error


def _names(root: Element) -> tuple[str, str]:
    """Return the namespace prefix of the elements' tags, and the root's name without it."""
    space, brace, name = root.tag.rpartition("}")
    return space + brace, name


def listed_objects(
    page: Mapping[str, Any], prefix: str, coding: KeyCoding | None = None, lost: Collection[str] = ()
) -> list[ListedObject]:
    """Return the objects of a parsed page, named below ``prefix``. ``coding``: of its keys; None: the stated one.

    ``lost``: encoded keys without an object. Raises ServerError if an object lacks a required field.
    """
    return list(_read(page, prefix, _FIELDS, coding or _stated(page), lost))


def latest_versions(
    page: Mapping[str, Any], prefix: str, coding: KeyCoding | None = None, lost: Collection[str] = ()
) -> list[ListedObject]:
    """Return the objects of a parsed page of versions, with the ids of their latest versions. See ``listed_objects``.

    Raises ServerError if a version lacks a required field.
    """
    return list(_read(page, prefix, _VERSION_FIELDS, coding or _stated(page), lost))


def _stated(page: Mapping[str, Any]) -> KeyCoding:
    return FORM if states_encoding(page) else RAW


def marker(page: Mapping[str, Any], name: str, coding: KeyCoding | None = None) -> str:
    """Return the key with which the next page of versions begins, as text. Raises ServerError."""
    key = str(page.get(name) or "")
    try:
        return (coding or _stated(page)).decode(key).decode()
    except UnicodeDecodeError as error:
        sentence = f"a page of versions ends with a key that is not UTF-8: {key}"
        raise errors.ServerError(sentence, temporary=False) from error


def _read(
    page: Mapping[str, Any], prefix: str, fields: Iterable[str], coding: KeyCoding, lost: Collection[str]
) -> Iterator[ListedObject]:
    name_space, contents = cast("tuple[str, list[Element]]", page[_TAKEN])
    names = tuple(name_space + name for name in fields)
    # The request set the encoding, so botocore does not decode keys. Decode to raw bytes, so that keys that are not
    # UTF-8 can be counted.
    below = prefix.encode()
    for item in contents:
        key, *rest = texts = [item.findtext(name) for name in names]
        if None in texts:
            raise _no_object(item, f"one of {', '.join(fields)} is missing")
        if rest[3:] and rest[4] != "true":
            continue  # an older version
        found = _listed(item, coding.decode(str(key)), [str(text) for text in rest[:4]], below)
        yield found._replace(skipped=SkipReason.UNKNOWN_NAME) if lost and key in lost else found


def _listed(item: Element, raw: bytes, rest: Sequence[str], prefix: bytes) -> ListedObject:
    size, modified, etag, *ids = rest
    if not raw.startswith(prefix):
        raise _outside(raw, prefix)
    try:
        path, version_id = raw.removeprefix(prefix), "".join(ids)
        found = ListedObject(path, int(size), _nanoseconds(modified), etag.strip('"'), version_id)
    except (ValueError, OverflowError, OSError) as error:  # the last two: impossible times
        raise _no_object(item, str(error)) from error
    if len(found.etag) > _MOST_ETAG or len(found.version_id) > _MOST_VERSION_ID:
        raise _no_object(item, "its ETag or its version id is too long")
    return found


def _outside(key: bytes, prefix: bytes) -> errors.ServerError:
    shown, wanted = (text[:200].decode(errors="replace") for text in (key, prefix))
    return errors.ServerError(
        f"the server lists the key {shown!r}, which does not begin with {wanted!r} as asked: check source.endpoint",
        temporary=False,
    )


def _no_object(item: Element, why: str) -> errors.ServerError:
    flat = Element(item.tag)
    flat.extend(part for part in item if not len(part))
    shown = ElementTree.tostring(flat, encoding="unicode")[:500]
    return errors.ServerError(f"the listing holds what is no object ({why}): {shown}", temporary=False)


def _nanoseconds(modified: str) -> int:
    """Convert LastModified into nanoseconds since 1970.

    S3 returns whole seconds, some servers milliseconds. Microseconds are exact for both.
    """
    try:
        moment = datetime.fromisoformat(modified)
    except ValueError:
        moment = parsedate_to_datetime(modified)  # an HTTP date
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (int(moment.timestamp()) * 1_000_000 + moment.microsecond) * 1000


_KEY = re.compile(rb"<Key>([^<]*)</Key>")
# Keys and prefixes of the request, which a page repeats and no caller reads.
_ECHOED = re.compile(rb"<(Prefix|Marker|StartAfter|KeyMarker|NextKeyMarker|NextMarker)>[^<]*</\1>")
_REFERENCE = re.compile(rb"&(?:#(\d{1,7})|#x([0-9A-Fa-f]{1,6})|(lt|gt|amp|quot|apos));")
_NAMED = {b"lt": b"<", b"gt": b">", b"amp": b"&", b"quot": b'"', b"apos": b"'"}
_LAST_CHARACTER = 0x10FFFF


def with_encoded_keys(body: bytes) -> bytes:
    """Return the page with percent-encoded keys and without echoed keys, so that a parser accepts it.

    XML forbids some characters of keys. Amazon S3 writes such a key as ``&#x1;`` if the client requests no encoding.
    Some servers always do that, or write the raw bytes.
    """
    return _KEY.sub(_encoded, _ECHOED.sub(b"", body))


def _encoded(key: re.Match[bytes]) -> bytes:
    return b"<Key>%b</Key>" % quote(_REFERENCE.sub(_character, key[1])).encode()


def _character(reference: re.Match[bytes]) -> bytes:
    decimal, hexadecimal, name = reference.groups()
    if name:
        return _NAMED[name]
    number = int(decimal) if decimal else int(hexadecimal, 16)
    return chr(number).encode(errors="surrogatepass") if number <= _LAST_CHARACTER else reference[0]

"""Listings of a bucket with the lean client. botocore would need a quarter of a second before the first page."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from stoker_sidecar import errors
from stoker_sidecar.store.buckets.s3_pages import (
    ListedKey,
    is_sorted,
    last_key,
    latest_versions,
    listed_objects,
    marker,
    odd_keys,
    own_coding,
    parse_page,
    states_encoding,
    text_of,
)
from stoker_sidecar.store.core.key_coding import KeyCoding, KeyCodings, is_ambiguous, is_damaged
from stoker_sidecar.store.core.s3_requests import AMAZON, canonical_query
from stoker_sidecar.version.objects import ListedObject

Page = tuple[Callable[[], Sequence[ListedObject]], str]  # a function that parses its objects, and the next page's token
# Sends a GET of the bucket itself with this canonical query; returns the body. Raises SourceError.
AskBucket = Callable[[str], Awaitable[bytes]]
# Requests an object by key, ETag and version id; returns whether it exists, None if the server refuses.
HasObject = Callable[[str, str, str], Awaitable[bool | None]]

PAGE_SECONDS = 300.0  # timeout of one page
_BETWEEN = "\n"  # separates version id and key in the token of a page of versions: an id has no line break
_TRIED = 5  # keys of a page to request under each of their possible names
_MOST_DAMAGED = 1000  # keys of a listing to request because the server may have replaced their characters
_AFTER = "\r"  # begins a token made here from a key, for servers that return no token


class S3Lister:
    """Requests pages of one bucket's objects, each page with the previous page's token.

    ``endpoint``: its name in messages. ``has``: checks for objects whose keys have an ambiguous encoding.
    """

    def __init__(self, ask: AskBucket, endpoint: str, has: HasObject) -> None:
        self._ask = ask
        self._endpoint = endpoint
        self._has = has
        self._codings: KeyCodings | None = None  # of the current listing
        self._damaged = 0  # damaged keys in the current listing

    async def page(self, prefix: str, token: str) -> Page:
        """GET one page of a listing: up to 1,000 objects, named below ``prefix``.

        Returns a function that parses the objects, and the next page's token, which is empty for the last page. Both
        this call and the function raise SourceError.
        """
        after = _key_of(token)
        # A server that supports only the first version of this request takes the key as its marker.
        resume = {"start-after": after, "marker": after} if after else {"continuation-token": token} if token else {}
        page = await self._page({"list-type": "2", "prefix": prefix} | resume)
        coding = await self._coding(page, prefix, token)
        following = str(page.get("NextContinuationToken") or "") if page["IsTruncated"] else ""
        if page["IsTruncated"] and not following:
            following = self._after_last_key(page, coding)
        self._check(page, coding, token, following)
        return partial(listed_objects, page, prefix, coding, await self._lost(page, coding)), following

    async def keeps_versions(self) -> bool:
        """GET the bucket's versioning. Return True if it keeps or once kept versions. Raises SourceError."""
        return text_of(await self._asked({"versioning": ""}), "Status") in ("Enabled", "Suspended")

    async def versions_page(self, prefix: str, token: str) -> Page:
        """GET one page of a listing of versions: up to 1,000 versions and marks of deleted objects.

        Returns the same as ``page``. Raises SourceError.
        """
        version_id, _, key = ("", "", after) if (after := _key_of(token)) else token.partition(_BETWEEN)
        resume = {"key-marker": key} if key else {}
        resume |= {"version-id-marker": version_id} if version_id else {}
        page = await self._page({"versions": "", "prefix": prefix} | resume)
        coding = await self._coding(page, prefix, token)
        key = marker(page, "NextKeyMarker", coding) if page["IsTruncated"] else ""
        following = f"{page.get('NextVersionIdMarker') or ''}{_BETWEEN}{key}" if key else ""
        if page["IsTruncated"] and not following:
            following = self._after_last_key(page, coding)
        self._check(page, coding, token, following)
        return partial(latest_versions, page, prefix, coding, await self._lost(page, coding)), following

    async def _coding(self, page: Mapping[str, Any], prefix: str, token: str) -> KeyCoding:
        """Return the encoding of a page's keys. Raises ServerError if none fits."""
        stated = states_encoding(page)
        if not token or self._codings is None:
            self._damaged = 0
            self._codings = KeyCodings(prefix, stated=stated, certain=stated and self._endpoint == AMAZON)
        if (own := own_coding(page)) is not None:
            return own
        await self._try_codings(self._codings, page)
        return self._codings.best

    async def _try_codings(self, codings: KeyCodings, page: Mapping[str, Any]) -> None:
        """Rule out encodings with requests for a few objects of the page. Raises ServerError if no object exists."""
        tried: list[ListedKey] = []
        lost: list[ListedKey] = []
        for key in odd_keys(page, lambda text: is_ambiguous(text) and not is_damaged(text)):
            if len(tried) < _TRIED and codings.differ(key.text) and len(names := codings.names(key.text)) > 1:
                tried.append(key)
                lost += [] if await self._found(codings, key, names) else [key]
        if tried and len(lost) == len(tried):
            raise self._unknown_encoding(lost[0])
        if any(len(codings.names(key.text)) > 1 for key in tried):
            codings.choose()  # more requests would not help

    async def _lost(self, page: Mapping[str, Any], coding: KeyCoding) -> frozenset[str]:
        """Return the encoded keys whose characters the server replaced: no object has that name."""
        lost: set[str] = set()
        for key in odd_keys(page, is_damaged):
            self._damaged += 1
            if self._damaged > _MOST_DAMAGED or await self._has_name(key, coding.decode(key.text)) is False:
                lost.add(key.text)
        return frozenset(lost)

    async def _found(self, codings: KeyCodings, key: ListedKey, names: Sequence[bytes]) -> bool:
        """Rule out encodings by whether a key exists under its possible names. Return False if it exists under none."""
        has = {name: await self._has_name(key, name) for name in names}
        found = [name for name in names if has[name]] or [name for name in names if has[name] is None]
        codings.keep(key.text, found)
        return bool(found)

    async def _has_name(self, key: ListedKey, name: bytes) -> bool | None:
        try:
            return await self._has(name.decode(), key.etag, key.version_id)
        except UnicodeDecodeError:
            return None

    def _unknown_encoding(self, key: ListedKey) -> errors.ServerError:
        return errors.ServerError(
            f"{self._endpoint} lists a key as {key.text[:100]!r} and has no object by that name, encoded or not: "
            "if none was deleted just now, check source.endpoint",
            temporary=False,
        )

    def _after_last_key(self, page: Mapping[str, Any], coding: KeyCoding) -> str:
        """Return a token for the next page, made from this page's last key.

        Raises ServerError if the page has no keys, a last key that is not UTF-8, or unsorted keys. A page without keys
        is the last one if the server does not state otherwise: the token is then empty.
        """
        key = last_key(page, coding)
        if not key:
            if not page["SaysTruncated"]:
                return ""
            raise self._ends_early("an empty page")
        if not is_sorted(page, coding):
            raise self._ends_early("a page that is not sorted by key")
        try:
            return _AFTER + key.decode()
        except UnicodeDecodeError as error:
            raise self._ends_early("a key that is not UTF-8") from error

    def _ends_early(self, what: str) -> errors.ServerError:
        return errors.ServerError(
            f"{self._endpoint} says that its listing continues after {what}, but not how: check source.endpoint",
            temporary=False,
        )

    def _check(self, page: Mapping[str, Any], coding: KeyCoding, token: str, following: str) -> None:
        """Raise ServerError if a page does not continue after the previous one; it may repeat that page's last key."""
        check_goes_on(self._endpoint, token, following)
        after = _key_of(token)
        key, last = after.encode(), last_key(page, coding) if after else b""
        if last and (last < key or (last == key and page["IsTruncated"])):
            raise errors.ServerError(
                f"{self._endpoint} does not say how its listing continues, and starts again after {after[:100]!r}: "
                "check source.endpoint",
                temporary=False,
            )

    async def _page(self, query: Mapping[str, str]) -> Mapping[str, Any]:
        return parse_page(await self._asked({**query, "encoding-type": "url"}))

    async def _asked(self, query: Mapping[str, str]) -> bytes:
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                return await self._ask(canonical_query(query))
        except TimeoutError as error:
            raise errors.EndpointUnreachable(
                f"{self._endpoint} does not bring a page of its listing within {PAGE_SECONDS:.0f} s: check the network"
            ) from error


def _key_of(token: str) -> str:
    """Return the key of a token made here; empty for a token of the server, or without a token."""
    return token[1:] if token.startswith(_AFTER) else ""


def check_goes_on(endpoint: str, token: str, following: str) -> None:
    """Raise ServerError if the next page's token equals this page's token."""
    if following and following == token:
        raise errors.ServerError(
            f"{endpoint} names the page that it just gave as the next one, for ever: this is no listing",
            temporary=False,
        )

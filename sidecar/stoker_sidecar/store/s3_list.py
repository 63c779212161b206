"""Listings of a bucket by the lean client: botocore's start takes a quarter of a second before the first page."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from stoker_sidecar import errors
from stoker_sidecar.store.core.s3_requests import canonical_query
from stoker_sidecar.store.s3_pages import latest_versions, listed_objects, marker, parse_page, text_of
from stoker_sidecar.version.objects import ListedObject

Page = tuple[Callable[[], Sequence[ListedObject]], str]  # what parses its objects, and the next page's token
# Sends a GET of the bucket itself with this canonical query; the body. Raises SourceError.
AskBucket = Callable[[str], Awaitable[bytes]]

PAGE_SECONDS = 300.0  # for one page, however slowly its bytes come
_BETWEEN = "\n"  # a version id and a key, in the token of a page of versions: an id has none


class S3Lister:
    """Asks one bucket for pages of its objects, each page with the token of the one before.

    ``endpoint``: as people know it.
    """

    def __init__(self, ask: AskBucket, endpoint: str) -> None:
        self._ask = ask
        self._endpoint = endpoint

    async def page(self, prefix: str, token: str) -> Page:
        """GET one page of a listing: up to 1,000 objects, named below ``prefix``.

        Returns a function that parses the objects, and the next page's token, which is empty for the last page. This
        and the function raise SourceError.
        """
        resume = {"continuation-token": token} if token else {}
        page = await self._page({"list-type": "2", "prefix": prefix} | resume)
        following = str(page.get("NextContinuationToken") or "") if page["IsTruncated"] else ""
        check_goes_on(self._endpoint, token, following)
        return partial(listed_objects, page, prefix), following

    async def keeps_versions(self) -> bool:
        """GET the bucket's versioning; whether it keeps versions now or did once. Raises SourceError."""
        return text_of(await self._asked({"versioning": ""}), "Status") in ("Enabled", "Suspended")

    async def versions_page(self, prefix: str, token: str) -> Page:
        """GET one page of a listing of versions: up to 1,000 versions and marks of deleted objects.

        Returns what ``page`` does. Raises SourceError.
        """
        version_id, _, key = token.partition(_BETWEEN)
        resume = {"key-marker": key} if key else {}
        resume |= {"version-id-marker": version_id} if version_id else {}
        page = await self._page({"versions": "", "prefix": prefix} | resume)
        key = marker(page, "NextKeyMarker") if page["IsTruncated"] else ""
        following = f"{page.get('NextVersionIdMarker') or ''}{_BETWEEN}{key}" if key else ""
        check_goes_on(self._endpoint, token, following)
        return partial(latest_versions, page, prefix), following

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


def check_goes_on(endpoint: str, token: str, following: str) -> None:
    """Raise ServerError where the next page's token is that of the page itself."""
    if following and following == token:
        raise errors.ServerError(
            f"{endpoint} names the page that it just gave as the next one, for ever: this is no listing",
            temporary=False,
        )

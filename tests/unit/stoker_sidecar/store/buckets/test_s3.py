"""When a bucket is listed with version ids, and when without."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.errors import AccessDenied, EndpointUnreachable, ObjectGone, ServerError, SourceError
from stoker_sidecar.store.base import Body, Retry, in_chunks
from stoker_sidecar.store.buckets.s3 import FREE_PAGES, MOST_PAGES, S3Store
from stoker_sidecar.store.buckets.s3_list import Page, S3Lister
from stoker_sidecar.store.core.location import S3Location
from stoker_sidecar.version.objects import ListedObject
from tests.support.store_contract import listed

REFUSED = AccessDenied("no")


async def no_time(seconds: float) -> None:
    return None


async def nothing() -> AsyncIterator[bytes]:
    for data in (b"x",):
        yield data


@dataclass
class Bucket(S3Lister):
    """A bucket as the clients see it. ``versions``: the pages of its version listing."""

    versions: Sequence[Sequence[str]] = (("a", "b"),)
    keeps: bool | SourceError = True
    refuses_versions: SourceError | None = None
    refuses_gets: SourceError | None = None
    asked: list[str] = field(default_factory=list)

    async def opened(self) -> "Bucket":
        return self

    async def keeps_versions(self) -> bool:
        if isinstance(self.keeps, SourceError):
            raise self.keeps
        return self.keeps

    async def page(self, prefix: str, token: str) -> Page:
        self.asked.append("objects")
        return lambda: [ListedObject(name.encode(), 1, 0, "e") for page in self.versions for name in page], ""

    async def versions_page(self, prefix: str, token: str) -> Page:
        self.asked.append("versions")
        if self.refuses_versions is not None:
            raise self.refuses_versions
        number = int(token or "0")
        following = str(number + 1) if number + 1 < len(self.versions) else ""
        return lambda: [ListedObject(name.encode(), 1, 0, "e", "v") for name in self.versions[number]], following

    @asynccontextmanager
    async def get_range(self, key: str, *_: object, **wanted: object) -> AsyncIterator[Body]:
        self.asked.append(f"{key}?{wanted['version_id']}")
        if self.refuses_gets is not None:
            raise self.refuses_gets
        yield Body(in_chunks(nothing()))

    async def list(self, lister: Any = None) -> dict[str, str]:
        """Return the version ids by path."""
        store = S3Store(S3Location("bucket", "p/"), cast(Any, self), lister or self, cast(Any, self), Retry(no_time))
        return {path: item.version_id for path, item in (await listed(store)).items()}


WITH, WITHOUT = {"a": "v", "b": "v"}, {"a": "", "b": ""}


async def test_a_bucket_that_keeps_versions_is_listed_with_their_ids() -> None:
    bucket = Bucket()
    assert await bucket.list() == WITH
    assert bucket.asked == ["versions", "p/a?v"]


@pytest.mark.parametrize("keeps", [False, REFUSED, ServerError("not implemented", temporary=False)])
async def test_one_that_keeps_none_or_does_not_tell_is_listed_without(keeps: bool | SourceError) -> None:
    bucket = Bucket(keeps=keeps)
    assert await bucket.list() == WITHOUT
    assert bucket.asked == ["objects"]


async def test_one_of_s3_express_is_not_even_asked() -> None:
    bucket = Bucket()
    assert await bucket.list(SimpleNamespace(page=bucket.page)) == WITHOUT  # the interface of botocore's client
    assert bucket.asked == ["objects"]


async def test_who_may_not_list_versions_gets_none() -> None:
    assert await Bucket(refuses_versions=REFUSED).list() == WITHOUT


async def test_who_may_not_read_versions_gets_none() -> None:
    assert await Bucket(refuses_gets=REFUSED).list() == WITHOUT


async def test_a_version_that_is_gone_already_says_nothing_about_the_right_to_read_them() -> None:
    assert await Bucket(refuses_gets=ObjectGone("expired")).list() == WITH


@pytest.mark.parametrize("bucket", ["keeps", "refuses_versions", "refuses_gets"])
async def test_what_passes_is_waited_for(bucket: str) -> None:
    made = Bucket()
    setattr(made, bucket, EndpointUnreachable("down"))
    with pytest.raises(EndpointUnreachable):
        await made.list()


@given(st.lists(st.sampled_from([0, 0, 0, 10, 1000]), max_size=600))
async def test_old_versions_cost_so_many_pages_and_no_more(sizes: list[int]) -> None:
    pages = [[f"{number}-{index}" for index in range(size)] for number, size in enumerate(sizes)]
    bucket = Bucket(versions=pages or [[]])
    found = await bucket.list()
    assert found.keys() == {name for page in pages for name in page}
    assert bucket.asked.count("versions") <= FREE_PAGES + MOST_PAGES * sum(sizes) // 1000 + 2

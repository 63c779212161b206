"""Servers with odd or missing continuation in their listings: the listing is complete, or an error."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast
from urllib.parse import parse_qsl, quote
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_sidecar.errors import (
    AccessDenied,
    EmptySource,
    EndpointUnreachable,
    ServerError,
    SidecarError,
    SourceError,
    Throttled,
)
from stoker_sidecar.store.base import Retry
from stoker_sidecar.store.buckets.s3 import BUSY_PATIENCE, PATIENCE, S3Store
from stoker_sidecar.store.buckets.s3_list import S3Lister
from stoker_sidecar.store.core.location import S3Location
from tests.support.cases import cases

ROW = (
    "<{0}><Key>{1}</Key><VersionId>{2}</VersionId><IsLatest>{3}</IsLatest><Size>0</Size>"
    "<LastModified>2026-01-01T00:00:00Z</LastModified><ETag>e</ETag></{0}>"
)
AWAY = EndpointUnreachable("the endpoint is away")


@dataclass
class OddServer:
    """A bucket behind a server that may reveal little about the continuation of its listing.

    ``knows_v2``: supports ``list-type=2``; otherwise it ignores all parameters that V1 lacks. ``tells``: names the
    start of the next page; ``token``: with this text. ``obeys``: starts at the requested key; ``inclusive``: at the key
    itself, not after it. ``prefixed``: lists only keys with the prefix. ``versions``: number per key; 0: versions are
    off.
    """

    keys: list[str]
    page: int = 3
    knows_v2: bool = True
    tells: bool = True
    obeys: bool = True
    truncated: str = "true"
    ended: str = "false"
    token: str | None = None
    inclusive: bool = False
    prefixed: bool = False
    encodes: bool = True
    versions: int = 0
    faults: Callable[[int], SourceError | None] = lambda number: None
    asked: list[dict[str, str]] = field(default_factory=list)
    served: int = 0  # pages

    async def has(self, key: str, etag: str, version_id: str) -> bool | None:
        """Answer as ``S3Getter.has`` does."""
        return key in self.keys

    async def ask(self, query: str) -> bytes:
        """Answer as ``S3Getter.ask_bucket`` does."""
        asked = dict(parse_qsl(query, keep_blank_values=True))
        self.asked.append(asked)
        if (fault := self.faults(len(self.asked))) is not None:
            raise fault
        if "versioning" in asked:
            status = "<Status>Enabled</Status>" if self.versions else ""
            return f"<VersioningConfiguration>{status}</VersioningConfiguration>".encode()
        self.served += 1
        return (self._versions(asked) if "versions" in asked else self._objects(asked)).encode()

    def _objects(self, asked: dict[str, str]) -> str:
        names = ("continuation-token", "start-after") if self.knows_v2 else ("marker",)
        after = next((asked[name] for name in names if name in asked), "") if self.obeys else ""
        below = [key for key in self.keys if key.startswith(asked["prefix"] if self.prefixed else "")]
        behind = [key for key in sorted(below, key=str.encode) if key.encode() > after.encode()]
        rows = [after, *behind] if self.inclusive and after else behind
        more = len(rows) > self.page
        next_one = "NextContinuationToken" if self.knows_v2 else "NextMarker"
        following = (rows[self.page - 1] if self.token is None else self.token) if more else ""
        name = f"<{next_one}>{escape(following)}</{next_one}>" if more and self.tells else ""
        return self._result("ListBucketResult", more, name, [self._row("Contents", key) for key in rows[: self.page]])

    def _versions(self, asked: dict[str, str]) -> str:
        # A marker with a version id continues in the middle of a key. Without one, it continues after the key.
        after = (asked.get("key-marker", ""), int(asked.get("version-id-marker", self.versions)))
        every = [(key, number) for key in sorted(self.keys, key=str.encode) for number in range(self.versions)]
        rows = [one for one in every if (one[0].encode(), one[1]) > (after[0].encode(), after[1])]
        more, page = len(rows) > self.page, rows[: self.page]
        key, number = page[-1] if page else ("", 0)
        name = f"<NextKeyMarker>{self._coded(key)}</NextKeyMarker><NextVersionIdMarker>{number}</NextVersionIdMarker>"
        found = [self._row("Version", *one) for one in page]
        return self._result("ListVersionsResult", more, name if more and self.tells else "", found)

    def _result(self, root: str, more: bool, following: str, rows: list[str]) -> str:
        flag = self.truncated if more else self.ended
        said = f"<IsTruncated>{flag}</IsTruncated>" if flag else ""
        coded = "<EncodingType>url</EncodingType>" if self.encodes else ""
        return f"<{root}>{coded}{said}{following}{''.join(rows)}</{root}>"

    def _row(self, tag: str, key: str, version: int = 0) -> str:
        return ROW.format(tag, self._coded(key), version, "true" if version == 0 else "false")

    def _coded(self, key: str) -> str:
        return quote(key) if self.encodes else escape(key)


class Getter:
    """Reads any object."""

    def get_range(self, *_: object, **__: object) -> Any:
        raise AssertionError("only objects with bytes are tried")


async def names(
    server: OddServer, retry: Retry | None = None, waits: Callable[[Any], None] | None = None, prefix: str = ""
) -> list[str]:
    """List the bucket. Return its names, including duplicates."""

    async def no_time(seconds: float) -> None:
        return None

    lister = S3Lister(server.ask, "the endpoint", server.has)
    store = S3Store(S3Location("bucket", prefix), cast(Any, Getter()), lister, cast(Any, None), retry or Retry(no_time))
    pages = store.list(waits) if waits is not None else store.list()
    return [one.path.decode() async for page in pages for one in page]


KEYS = [f"p/{number:02} ü+%" for number in range(10)]
SERVERS = [
    OddServer(KEYS),
    OddServer(KEYS, knows_v2=False),
    OddServer(KEYS, knows_v2=False, tells=False),
    OddServer(KEYS, tells=False),
    OddServer(KEYS, tells=False, truncated="True", ended="False"),
    OddServer(KEYS, truncated="True"),
    OddServer(KEYS, truncated="TRUE", encodes=False),
    OddServer(KEYS, tells=False, truncated="1"),
    OddServer(KEYS, tells=False, truncated="", ended=""),
    OddServer(KEYS, token=""),
    OddServer(KEYS, knows_v2=False, truncated="", ended=""),
    OddServer(KEYS, knows_v2=False, truncated="", ended="false"),
    OddServer(KEYS, knows_v2=False, tells=False, truncated=" TRUE "),
]


@pytest.mark.parametrize("server", SERVERS)
async def test_a_listing_is_whole_however_a_server_says_that_it_goes_on(server: OddServer) -> None:
    assert await names(replace(server, asked=[])) == KEYS


@pytest.mark.parametrize("knows_v2", [True, False])
async def test_a_page_may_begin_with_the_last_key_of_the_one_before(knows_v2: bool) -> None:
    server = OddServer(KEYS, knows_v2=knows_v2, tells=False, inclusive=True)
    assert sorted(set(await names(server))) == KEYS


async def test_tokens_that_lead_in_a_circle_are_an_error() -> None:
    server, tokens = OddServer(KEYS), iter(["b", "a"] * 50)
    server.obeys = False

    async def ask(query: str) -> bytes:
        body = await OddServer.ask(server, query)
        return re.sub(rb"(<NextContinuationToken>)[^<]*", rb"\g<1>" + next(tokens).encode(), body)

    server.ask = ask  # type: ignore[method-assign]
    with pytest.raises(ServerError, match="lists a page of objects twice"):
        await names(server)


async def test_a_page_without_order_is_not_continued_by_its_last_key() -> None:
    server = OddServer(KEYS, tells=False)

    async def ask(query: str) -> bytes:
        body = (await OddServer.ask(server, query)).decode()
        rows = re.findall(r"<Contents>.*?</Contents>", body)
        return re.sub(r"<Contents>.*</Contents>", lambda _: "".join(reversed(rows)), body).encode()

    server.ask = ask  # type: ignore[method-assign]
    with pytest.raises(ServerError, match="a page that is not sorted by key, but not how"):
        await names(server)


async def test_a_page_without_keys_in_the_middle_ends_nothing() -> None:
    pages = {"": (KEYS[:2], "1"), "1": ([], "2"), "2": ([], "3"), "3": (KEYS[2:], "")}
    server = OddServer(KEYS)

    async def ask(query: str) -> bytes:
        asked = dict(parse_qsl(query, keep_blank_values=True))
        if "versioning" in asked:
            return await OddServer.ask(server, query)
        keys, following = pages[asked.get("continuation-token", "")]
        token = f"<KeyCount>0</KeyCount><NextContinuationToken>{following}</NextContinuationToken>"
        rows = [server._row("Contents", key) for key in keys]
        return server._result("ListBucketResult", bool(following), token, rows).encode()

    server.ask = ask  # type: ignore[method-assign]
    assert await names(server) == KEYS


async def test_keys_that_do_not_begin_with_the_prefix_are_an_error() -> None:
    lister = S3Lister(OddServer(KEYS).ask, "the endpoint", OddServer(KEYS).has)
    read, _ = await lister.page("q/", "")
    with pytest.raises(ServerError, match="which does not begin with 'q/' as asked"):
        read()


@settings(max_examples=60)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5), unique=True, max_size=12),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["true", "True", "yes", ""]),
    st.booleans(),
)
async def test_an_odd_server_hides_no_keys(
    keys: list[str], page: int, knows_v2: bool, tells: bool, truncated: str, encodes: bool
) -> None:
    ended = "false" if truncated else ""
    server = OddServer(keys, page, knows_v2, tells, truncated=truncated, ended=ended, encodes=encodes)
    assert sorted(await names(server)) == sorted(keys)


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("versions", [1, 2, 7])
async def test_a_listing_of_versions_is_whole_with_and_without_markers(tells: bool, versions: int) -> None:
    server = OddServer(KEYS, tells=tells, versions=versions)
    assert await names(server) == KEYS


@pytest.mark.parametrize("knows_v2", [True, False])
async def test_a_server_that_gives_the_same_page_for_ever_is_an_error(knows_v2: bool) -> None:
    with pytest.raises(ServerError, match=r"check source\.endpoint|this is no listing") as raised:
        await names(OddServer(KEYS, knows_v2=knows_v2, tells=False, obeys=False))
    assert not raised.value.temporary


async def test_pages_that_come_again_under_other_tokens_are_an_error() -> None:
    server = OddServer(KEYS, obeys=False)
    tokens = iter(range(100))

    async def ask(query: str) -> bytes:
        body = await OddServer.ask(server, query)
        return re.sub(rb"(<NextContinuationToken>)[^<]*", rb"\g<1>%d" % next(tokens), body)

    server.ask = ask  # type: ignore[method-assign]
    with pytest.raises(ServerError, match="lists a page of objects twice"):
        await names(server)


async def test_an_empty_page_that_goes_on_and_does_not_say_how_is_an_error() -> None:
    server = OddServer([], tells=False, ended="true")
    with pytest.raises(ServerError, match="continues after an empty page, but not how"):
        await names(server)


class Waits:
    """A clock that only advances during waits, and the listing's reports of its waits."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.told: list[SidecarError | None] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    @property
    def retry(self) -> Retry:
        return Retry(self.sleep, uniform=lambda: 0.5)


@pytest.mark.parametrize("fault", [AWAY, Throttled("503"), ServerError("500")], ids=["refused", "503", "500"])
async def test_a_listing_survives_ten_minutes_without_a_server_and_goes_on(fault: SourceError) -> None:
    waits = Waits()
    server = OddServer([f"{number:03}" for number in range(180)])
    server.faults = lambda number: fault if number > 30 and waits.seconds < 600 else None
    assert await names(server, waits.retry, waits.told.append) == server.keys
    assert server.served == 60
    assert [waits.told[0], waits.told[-1]] == [fault, None]


@cases(
    "good, fault, least, most",
    after_the_first_page=(2, AWAY, PATIENCE, PATIENCE + 60),
    soon_when_it_is_away_before=(1, AWAY, 0, 30),
    later_when_it_is_busy_before=(0, Throttled("503"), BUSY_PATIENCE, BUSY_PATIENCE + 60),
)
async def test_a_listing_gives_up_in_the_end(good: int, fault: SourceError, least: float, most: float) -> None:
    waits = Waits()
    server = OddServer(KEYS)
    server.faults = lambda number: fault if number > good else None
    with pytest.raises(type(fault)):
        await names(server, waits.retry, waits.told.append)
    assert least <= waits.seconds < most


@pytest.mark.parametrize("fault", [Throttled("503"), ServerError("500")], ids=["503", "500"])
async def test_a_server_that_is_busy_before_the_first_page_is_waited_for(fault: SourceError) -> None:
    waits = Waits()
    server = OddServer(KEYS)
    server.faults = lambda number: fault if waits.seconds < BUSY_PATIENCE / 2 else None
    assert await names(server, waits.retry, waits.told.append) == KEYS
    assert waits.told[-1] is None


@cases(
    "path, sentence",
    ("d/f.tar", "s3://bucket/d/f.tar is an object, not a folder: write s3://bucket/d/ and source.include 'f.tar'"),
    ("d/*.tar", "s3://bucket/d/*.tar is a pattern, not a folder: write s3://bucket/d/ and source.include '*.tar'"),
    ("d/f.", "s3://bucket/d/f. is no folder, but the beginning of keys such as 'd/f.tar'"),
)
async def test_an_invalid_folder_is_refused_with_a_fix(path: str, sentence: str) -> None:
    server = OddServer(["d/f.tar", "d/g"], prefixed=True)
    with pytest.raises(EmptySource) as raised:
        await names(server, prefix=f"{path}/")
    assert raised.value.message.startswith(sentence)


async def test_an_empty_folder_is_left_to_its_own_sentence() -> None:
    assert await names(OddServer(KEYS, prefixed=True), prefix="no/such/folder/") == []


async def test_where_no_other_prefix_may_be_listed_an_empty_folder_is_just_empty() -> None:
    server = OddServer(KEYS, prefixed=True)
    server.faults = lambda number: AccessDenied("no") if number > 2 else None
    assert await names(server, prefix="no/such/folder/") == []

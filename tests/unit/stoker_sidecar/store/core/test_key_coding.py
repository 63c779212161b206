"""Servers that encode the keys of listings in different ways: names are right, or the listing is rejected."""

from collections.abc import Callable, Collection
from urllib.parse import parse_qsl, quote, quote_plus
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.errors import EndpointUnreachable, ServerError
from stoker_sidecar.store.buckets.s3_list import S3Lister
from stoker_sidecar.store.buckets.s3_pages import listed_objects, own_coding, parse_page, with_encoded_keys
from stoker_sidecar.store.core.key_coding import FORM, PERCENT, RAW
from stoker_sidecar.store.core.s3_requests import AMAZON
from stoker_sidecar.version.objects import SkipReason
from tests.support.cases import cases

VERSION = (
    "<Version><Key>{}</Key><VersionId>v</VersionId><IsLatest>true</IsLatest><Size>1</Size>"
    "<LastModified>2026-01-01T00:00:00Z</LastModified><ETag>{}</ETag></Version>"
)
Encode = Callable[[str], str]
ROW = "<Contents><Key>{}</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>{}</ETag></Contents>"
KEYS = ["C++/a+b c.jpg", "100%.txt", "ä b.jpg", "a%20b.txt", "plain.txt", "q?x=1&y.txt", "h#1.txt", "%2B", "語.jpg"]


def encoded_blanks(key: str) -> str:
    """Encode as Amazon S3 does."""
    return quote_plus(key, safe="/")


ENCODINGS: dict[str, Encode] = {
    "as Amazon": encoded_blanks,
    "+ left alone": lambda key: quote(key, safe="/+"),
    "RFC 3986": lambda key: quote(key, safe="/"),
    "slashes too": lambda key: quote(key, safe=""),
    "not at all": lambda key: key,
    "twice": lambda key: quote(quote(key)),
    "twice, as Amazon": lambda key: encoded_blanks(encoded_blanks(key)),
    "small letters": lambda key: quote(key, safe="/").replace("%C3%A4", "%c3%a4").replace("%2B", "%2b"),
}


class Server:
    """A bucket with one encoding of keys. ``silent``: HEAD fails. ``gone``: keys deleted since the listing."""

    def __init__(self, keys: Collection[str], encode: Encode, states: str = "", page: int = 1000) -> None:
        self.keys = sorted(keys, key=str.encode)
        self.encode, self.states, self.page = encode, states, page
        self.heads: list[str] = []
        self.silent = False
        self.gone: set[str] = set()

    async def versions(self, query: str) -> bytes:
        """List all keys with one version each, in pages that continue after a key."""
        begin = self.keys.index(dict(parse_qsl(query))["key-marker"]) + 1 if "key-marker" in query else 0
        page = self.keys[begin:][: self.page]
        rows = "".join(VERSION.format(escape(self.encode(key)), self.tag(key)) for key in page)
        states = f"<EncodingType>{self.states}</EncodingType>" if self.states else ""
        marker = f"<NextKeyMarker>{escape(self.encode(page[-1]))}</NextKeyMarker>"
        head = f"{states}<IsTruncated>{begin + self.page < len(self.keys)}</IsTruncated>{marker}"
        return f"<ListVersionsResult>{head}{rows}</ListVersionsResult>".encode()

    async def ask(self, query: str) -> bytes:
        """List all keys, in pages that continue by number."""
        _, _, token = query.partition("continuation-token=")
        begin = int(token.partition("&")[0] or 0) * self.page
        rows = "".join(ROW.format(escape(self.encode(key)), self.tag(key)) for key in self.keys[begin:][: self.page])
        states = f"<EncodingType>{self.states}</EncodingType>" if self.states else ""
        more = begin + self.page < len(self.keys)
        following = f"<NextContinuationToken>{begin // self.page + 1}</NextContinuationToken>" if more else ""
        head = f"{states}<IsTruncated>{more}</IsTruncated>{following}"
        return f"<ListBucketResult>{head}{rows}</ListBucketResult>".encode()

    def tag(self, key: str) -> str:
        """Return the ETag of a key's object."""
        return key.encode().hex()[:100]

    async def has(self, key: str, etag: str, version_id: str) -> bool | None:
        """Answer a HEAD as ``S3Getter.has`` does."""
        self.heads.append(key)
        if self.silent:
            return None
        return key in self.keys and key not in self.gone and etag == self.tag(key)

    async def names(self, prefix: str = "", endpoint: str = "the endpoint") -> list[str]:
        """List all pages."""
        lister, token, found = S3Lister(self.ask, endpoint, self.has), "", list[str]()
        for _ in self.keys:
            read, token = await lister.page(prefix, token)
            found += [prefix + one.path.decode() for one in read()]
            if not token:
                break
        return found


@pytest.mark.parametrize("states", ["url", "", "URL"])
@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
async def test_names_are_right_however_keys_are_encoded(encode: Encode, states: str) -> None:
    server = Server(KEYS, encode, states)
    assert await server.names() == server.keys
    assert len(server.heads) <= 12


@pytest.mark.parametrize("states", ["url", ""])
@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("key", [*KEYS, "a+b", "a b", "p/%25", "+", "a%2520b"])
async def test_one_odd_key_behind_plain_ones_is_enough(key: str, encode: Encode, states: str) -> None:
    server = Server(["a", "b", key, "z"], encode, states, page=2)
    assert await server.names() == server.keys


@pytest.mark.parametrize("states", ["url", ""])
@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
async def test_a_listing_of_versions_continues_behind_the_right_key(encode: Encode, states: str) -> None:
    server = Server(KEYS, encode, states, page=2)
    lister, token, found = S3Lister(server.versions, "the endpoint", server.has), "", list[str]()
    for _ in KEYS:
        read, token = await lister.versions_page("", token)
        found += [one.path.decode() for one in read()]
        if not token:
            break
    assert found == server.keys


@given(
    st.lists(st.text("ab +%2B/ä&", min_size=1, max_size=6), min_size=1, max_size=8, unique=True),
    st.sampled_from(list(ENCODINGS.values())),
    st.sampled_from(["url", ""]),
    st.integers(1, 4),
)
async def test_no_name_is_ever_wrong(keys: list[str], encode: Encode, states: str, page: int) -> None:
    server = Server(keys, encode, states, page)
    assert await server.names() == server.keys


async def test_keys_that_differ_by_what_a_plus_means_are_told_apart_by_their_etags() -> None:
    server = Server(["a b", "a+b"], ENCODINGS["+ left alone"], "url")
    assert await server.names() == ["a b", "a+b"]


@pytest.mark.parametrize("encode", [ENCODINGS["+ left alone"], ENCODINGS["not at all"]])
async def test_a_prefix_that_is_no_prefix_otherwise_needs_no_request(encode: Encode) -> None:
    server = Server(["C++/a", "C++/b"], encode, "url")
    assert await server.names("C++/") == server.keys
    assert server.heads == []


@pytest.mark.parametrize("states", ["url", ""])
async def test_plain_keys_need_no_request(states: str) -> None:
    server = Server(["a/b.txt", "c"], ENCODINGS["as Amazon"], states)
    assert await server.names() == server.keys
    assert server.heads == []


async def test_a_listing_of_a_million_odd_names_costs_a_few_requests() -> None:
    server = Server([f"{number} ä+%" for number in range(60)], ENCODINGS["as Amazon"], "url", page=2)
    assert await server.names() == server.keys
    assert len(server.heads) <= 6


async def test_amazons_word_is_taken() -> None:
    server = Server(KEYS, ENCODINGS["as Amazon"], "url")
    assert await server.names(endpoint=AMAZON) == server.keys
    assert server.heads == []


@pytest.mark.parametrize("states", ["url", ""])
async def test_a_key_that_is_there_by_no_name_is_refused(states: str) -> None:
    server = Server(["a+b"], lambda key: key.encode().hex(":").replace(":", "%"), states)
    with pytest.raises(ServerError, match=r"has no object by that name, encoded or not.*check source\.endpoint"):
        await server.names()


async def test_an_object_that_was_deleted_in_between_spoils_nothing() -> None:
    server = Server(KEYS, ENCODINGS["+ left alone"], "url")
    server.gone = {"C++/a+b c.jpg"}
    assert await server.names() == server.keys


async def test_a_name_that_the_server_replaced_is_skipped_and_a_true_one_is_not() -> None:
    server = Server(["a\x01b", "plain", "true\ufffd+"], lambda key: key.replace("\x01", "\ufffd"))
    lister = S3Lister(server.ask, "the endpoint", server.has)
    read, _ = await lister.page("", "")
    assert {one.path.decode(): one.skipped for one in read()} == {
        "a\ufffdb": SkipReason.UNKNOWN_NAME,
        "plain": None,
        "true\ufffd+": None,
    }


async def test_replaced_names_cost_a_bounded_number_of_requests() -> None:
    server = Server([f"{number:04}\x01" for number in range(1200)], lambda key: key.replace("\x01", "\ufffd"))
    server.page = 2000
    read, _ = await S3Lister(server.ask, "the endpoint", server.has).page("", "")
    assert {one.skipped for one in read()} == {SkipReason.UNKNOWN_NAME}
    assert len(server.heads) == 1000


@pytest.mark.parametrize(("states", "expected"), [("url", "a b"), ("", "a+b")])
async def test_where_no_object_may_be_asked_for_the_statement_counts(states: str, expected: str) -> None:
    server = Server(["a+b", "c+d"], ENCODINGS["not at all"], states, page=1)
    server.silent = True
    assert (await server.names())[0] == expected
    assert len(server.heads) <= 4


async def test_a_server_that_is_away_for_a_moment_rules_out_nothing() -> None:
    server = Server(["a+b"], ENCODINGS["not at all"], "url")

    async def away(key: str, etag: str, version_id: str) -> bool | None:
        raise EndpointUnreachable("away")

    lister = S3Lister(server.ask, "the endpoint", away)
    with pytest.raises(EndpointUnreachable):
        await lister.page("", "")
    lister._has = server.has
    read, _ = await lister.page("", "")
    assert [one.path for one in read()] == [b"a+b"]


@cases(
    "text, raw, percent, form",
    ("a+b", b"a+b", b"a+b", b"a b"),
    ("a%2Bb", b"a%2Bb", b"a+b", b"a+b"),
    ("%FF", b"%FF", b"\xff", b"\xff"),
    ("100%", b"100%", b"100%", b"100%"),
    ("ä", "ä".encode(), "ä".encode(), "ä".encode()),
)
def test_a_text_means_what_its_encoding_says(text: str, raw: bytes, percent: bytes, form: bytes) -> None:
    assert (RAW.decode(text), PERCENT.decode(text), FORM.decode(text)) == (raw, percent, form)


@cases(
    "key, expected",
    (b"a&#x1;b", b"a\x01b"),
    (b"a\x01b", b"a\x01b"),
    (b"a&#27;[2J", b"a\x1b[2J"),
    (b"a\xffb", b"a\xffb"),
    (b"a&amp;&lt;&#x1;", b"a&<\x01"),
    (b"50%25+\x02", b"50%25+\x02"),
)
def test_characters_that_xml_forbids_leave_the_other_keys_alone(key: bytes, expected: bytes) -> None:
    rows = ROW.encode().replace(b"{}", b"%b", 1).replace(b"{}", b"e") % key + ROW.format("plain+", "e").encode()
    page = parse_page(b"<ListBucketResult><Prefix>%b</Prefix>%b</ListBucketResult>" % (key, rows))
    assert [one.path for one in listed_objects(page, "", own_coding(page))] == [expected, b"plain+"]


@given(st.binary(max_size=20))
def test_a_page_is_rewritten_without_an_error(key: bytes) -> None:
    assert with_encoded_keys(b"<Key>%b</Key>" % key)

"""CA bundles are sent to the fetcher once, and both ends agree on the set of bundles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.wire.config.ca_bundles import CaBundles, digest_of
from stoker_sidecar.wire.credentials import (
    MOST_CA_BYTES,
    AmbientCredentials,
    Credentials,
    StaticCredentials,
    WebIdentityCredentials,
)
from stoker_sidecar.wire.fetcher_protocol import (
    Configure,
    Request,
    Trust,
    TrustingConfigure,
    decode_request,
    encode_request,
)
from tests.support.cases import cases

PEM = "-----BEGIN CERTIFICATE-----\n" + "A" * 65_000


def configure(uid: str, pem: str = PEM) -> Configure:
    return Configure({"uid": uid}, StaticCredentials("key", "secret", "", pem), ("v1",))


def crossed(request: Request, agent: CaBundles, fetcher: CaBundles) -> tuple[list[Request], int]:
    """Return the received parts of a request, and the number of bytes sent."""
    lines = [encode_request(1, part) for part in agent.sent(request)]
    arrived = [fetcher.received(decode_request(line)[1]) for line in lines]
    return [one for one in arrived if one is not None], sum(map(len, lines))


def test_three_hundred_datasets_with_one_bundle_send_it_once() -> None:
    agent, fetcher, total = CaBundles(), CaBundles(), 0
    for number in range(300):
        arrived, size = crossed(configure(f"uid-{number}"), agent, fetcher)
        assert arrived == [configure(f"uid-{number}")]
        total += size
    assert total < 3 * MOST_CA_BYTES


credentials = st.sampled_from("abcd").map(lambda pem: StaticCredentials("key", "secret", "", pem)) | st.sampled_from(
    [AmbientCredentials(), WebIdentityCredentials("role", "token", "", "b"), StaticCredentials("key", "secret")]
)


@given(st.lists(credentials, max_size=20))
def test_both_ends_agree_though_bundles_are_forgotten(each: list[Credentials]) -> None:
    agent, fetcher = CaBundles(most=2), CaBundles(most=2)
    for one in each:
        request = Configure({"uid": "u"}, one)
        assert crossed(request, agent, fetcher)[0] == [request]


@cases(
    "request_",
    Trust("0" * 64, "not of that hash"),
    Trust(digest_of("A" * (MOST_CA_BYTES + 1)), "A" * (MOST_CA_BYTES + 1)),
    TrustingConfigure({"uid": "u"}, StaticCredentials("key", "secret"), (), "0" * 64),
)
def test_a_bundle_that_is_another_too_large_or_was_not_sent_ends_the_connection(request_: Request) -> None:
    with pytest.raises(ProtocolError):
        CaBundles().received(request_)


def test_equal_bundles_are_in_memory_once() -> None:
    one, other = (decode_request(encode_request(1, configure(uid)))[1] for uid in "ab")
    assert isinstance(one, Configure)
    assert isinstance(other, Configure)
    assert isinstance(one.credentials, StaticCredentials)
    assert isinstance(other.credentials, StaticCredentials)
    assert one.credentials.ca_pem is other.credentials.ca_pem

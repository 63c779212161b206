"""Valid addresses of an endpoint."""

import pytest

from stoker_sidecar.errors import EndpointNotAllowed
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.core.location import may_be_asked, parse_networks
from tests.support.cases import cases


@cases(
    "address",
    "127.0.0.1",
    "127.8.9.10",
    "0.0.0.0",
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "fd20:ce::254",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "2002:7f00:1::",
    "64:ff9b::a9fe:a9fe",
)
def test_the_nodes_own_and_metadata_addresses_are_refused(address: str) -> None:
    assert not may_be_asked(address, ())


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.9", "52.218.0.1", "fd12:3456::1", "2600:1f00::1"])
def test_others_may_be_asked(address: str) -> None:
    assert may_be_asked(address, ())


def test_the_administrator_may_allow_networks() -> None:
    allowed = parse_networks(["127.0.0.0/8", "fe80::5"])
    assert may_be_asked("127.0.0.1", allowed)
    assert may_be_asked("::ffff:127.0.0.1", allowed)
    assert may_be_asked("fe80::5", allowed)
    assert not may_be_asked("fe80::6", allowed)


def test_one_refused_address_of_several_is_enough() -> None:
    with pytest.raises(EndpointNotAllowed, match=r"evil.example is at 169.254.169.254.*sidecar.endpoints.allow"):
        ConnectionSettings(endpoint_networks=()).check_addresses("evil.example", ["52.1.1.1", "169.254.169.254"])


def test_a_process_that_serves_one_person_asks_whatever_it_is_told() -> None:
    ConnectionSettings().check_addresses("localhost", ["127.0.0.1"])

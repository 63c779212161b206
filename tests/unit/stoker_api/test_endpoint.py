"""Valid endpoints, and the messages for invalid ones."""

import re
from urllib.parse import urlsplit

import pytest
from botocore.utils import is_valid_endpoint_url, is_valid_ipv6_endpoint_url
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.datasets.endpoint import REGION_PATTERN, checked_endpoint, host_port, is_address
from tests.support.cases import cases


@cases(
    "url",
    "https://minio.storage:9000",
    "http://10.0.0.1:80/",
    "http://localhost",
    "https://s3.eu-west-1.amazonaws.com",
    "http://[::1]:9000",
    f"http://{'a' * 63}",
)
def test_urls_of_servers_are_taken(url: str) -> None:
    assert checked_endpoint(url) == url


@cases(
    "url",
    "",
    "minio:9000",
    "ftp://minio",
    "http://",
    "http://mi nio",
    "http://mi_nio",
    "http://-minio",
    "http://minio-",
    "http://a..b",
    "http://user:pass@minio",
    "http://minio:0",
    "http://minio:65536",
    "http://minio:9000/path",
    "http://minio\n",
    "http://münchen",
    f"http://{'a' * 64}",
    f"http://{'.'.join(['a' * 63] * 4)}",
    "http://[1:2]",
    "http://[::1",
    "http://minio?x",
)
def test_what_is_no_url_of_a_server_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ValueError, match=r"such as https://minio\.storage:9000"):
        checked_endpoint(url)


@given(st.from_regex(r"https?://[a-zA-Z0-9.:\[\]_-]{1,40}/?", fullmatch=True))
def test_what_is_taken_is_taken_by_every_client_too(url: str) -> None:
    try:
        checked_endpoint(url)
    except ValueError:
        return
    assert is_valid_endpoint_url(url) or is_valid_ipv6_endpoint_url(url)
    assert urlsplit(url).port is None or 0 < (urlsplit(url).port or 0) < 65536


@cases("region, fits", ("eu-west-1", True), ("a", True), ("-a", False), ("7", False), ("a-", False), ("", False))
def test_a_region_is_a_label_of_a_dns_name(region: str, fits: bool) -> None:
    assert (re.fullmatch(REGION_PATTERN, region) is not None) is fits


@cases("text, fits", ("10.0.0.1:8081", True), ("a:8081", True), ("[::1]:80", True), ("a:80/", False), ("a/b:1", False))
def test_an_address_is_a_host_and_a_port(text: str, fits: bool) -> None:
    assert is_address(text) is fits


@cases(
    "host, text",
    ("10.0.0.1", "10.0.0.1:8082"),
    ("node-a.example.com", "node-a.example.com:8082"),
    ("::1", "[::1]:8082"),
    ("fd00:10:244::7", "[fd00:10:244::7]:8082"),
)
def test_a_host_and_a_port_are_joined_to_an_address(host: str, text: str) -> None:
    assert host_port(host, 8082) == text
    assert is_address(text)

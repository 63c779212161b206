"""The administrator's policy for object stores."""

import pytest
from pydantic import ValidationError

from stoker_api.datasets.dataset_source import Source
from stoker_api.datasets.origin import origin_names
from stoker_operator.core.origins.origin_policy import Cap, OriginPolicy
from tests.support.cases import cases
from tests.support.present import present


def test_caps_are_known_by_the_names_of_sources_however_they_are_written() -> None:
    rows = [
        {"bucket": "archive", "bytesPerSecond": "500Mi"},
        {"endpoint": "https://Store.Example:443/", "bucket": "b-1", "requestsPerSecond": 7},
        {"endpoint": "http://store.example:9000", "bytesPerSecond": "100k"},
        {"bucket": "priced", "price": {"perGB": 1}},
    ]
    policy = OriginPolicy.model_validate({"caps": rows, "total": {"bytesPerSecond": "1Gi"}})

    assert dict(policy.by_name) == {
        "s3://archive": Cap(500 * 1024**2, None),
        "https://store.example/b-1": Cap(None, 7000),
        "http://store.example:9000": Cap(100_000, None),
        "*": Cap(1024**3, None),
    }


@cases(
    "first, second, name",
    ({"bucket": "archive"}, {"bucket": "archive", "price": {"perGB": 1}}, "s3://archive"),
    ({"endpoint": "https://Store.Example:443/"}, {"endpoint": "https://store.example"}, "https://store.example"),
    ({"endpoint": "http://e:80", "bucket": "b-1"}, {"endpoint": "http://e", "bucket": "b-1"}, "http://e/b-1"),
    ({}, {}, "s3://"),
)
def test_two_rows_for_one_origin_are_refused_by_its_name(
    first: dict[str, object], second: dict[str, object], name: str
) -> None:
    rows = [first | {"bytesPerSecond": "1Gi"}, {"bucket": "between"}, second]
    with pytest.raises(ValidationError, match=f"caps names {name} twice: name it once"):
        OriginPolicy.model_validate({"caps": rows})


def test_a_bucket_its_endpoint_and_its_namesake_elsewhere_are_three_origins() -> None:
    rows = [{"bucket": "b-1"}, {"endpoint": "https://e"}, {"endpoint": "https://e", "bucket": "b-1"}]
    assert len(OriginPolicy.model_validate({"caps": rows}).caps) == 3


def test_a_price_is_the_buckets_else_its_endpoints_else_the_charts() -> None:
    rows = [
        {"endpoint": "https://e", "bucket": "bbb", "price": {"perGB": 1}},
        {"endpoint": "https://e", "price": {"perGB": 2, "perThousandRequests": 3}},
    ]
    policy = OriginPolicy.model_validate({"caps": rows, "price": {"perGB": 9, "perThousandRequests": 8}})

    def price(uri: str, endpoint: str | None) -> tuple[float, float]:
        names = present(origin_names(Source(uri=uri, endpoint=endpoint)))
        return policy.price_of(names)

    assert price("s3://bbb/x", "https://e") == (1, 3)
    assert price("s3://other/", "https://e") == (2, 3)
    assert price("s3://other/", None) == (9, 8)


@cases(
    "wrong",
    {"cap": []},
    {"caps": [{"bucket": "b"}]},
    {"caps": [{"endpoint": "minio:9000"}]},
    {"caps": [{"bytesPerSecond": "fast"}]},
    {"caps": [{"requestsPerSecond": 0}]},
    {"price": {"perGB": -1}},
    {"price": {"perGiB": 1}},
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        OriginPolicy.model_validate(wrong)


@pytest.mark.parametrize("rate", ["0", "0Gi", "100", "99k", "0.01M"])
def test_a_cap_that_would_stop_everything_is_refused_with_what_to_write(rate: str) -> None:
    with pytest.raises(ValidationError, match="would stop all downloads: write for example 500Mi, or nothing"):
        OriginPolicy.model_validate({"total": {"bytesPerSecond": rate}})


@pytest.mark.parametrize("rate", ["100000", "100k", "98Ki", "0.5Gi", "20Gi"])
def test_a_cap_may_be_small(rate: str) -> None:
    assert OriginPolicy.model_validate({"total": {"bytesPerSecond": rate}}).total.cap.bytes_per_second

"""The forecast of a warm-up before it starts."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_operator.core.status.warm_outlook import CHUNK, OriginTerms, WarmWork, forecast
from tests.support.cases import cases

SIZES = st.integers(0, 10**15)
RATES = st.floats(1, 10**11)


@cases(
    "work, fetched",
    each_node_fetches_what_it_lacks=(WarmWork(size=1000, files=10, here=(1000, 400, 0)), (1600, 16)),
    among_peers_one_copy_less_what_one_of_them_has=(
        WarmWork(size=1000, files=10, here=(0, 400, 0), peers=True),
        (600, 6),
    ),
)
def test_the_source_sends_bytes_that_no_node_has(work: WarmWork, fetched: tuple[int, int]) -> None:
    found = forecast(work)
    assert (found.origin_bytes, found.origin_requests) == fetched


def test_large_files_cost_a_request_for_each_chunk() -> None:
    assert forecast(WarmWork(10 * CHUNK, 1, (0,))).origin_requests == 11


PRICED = OriginTerms(price_per_gb=1.0, currency="EUR")


@pytest.mark.parametrize("terms", [OriginTerms(), OriginTerms(bytes_per_second=100.0), PRICED])
@pytest.mark.parametrize("work", [WarmWork(1000, 10, (1000, 0, 0), peers=True), WarmWork(1000, 10, (0,), given=True)])
def test_what_peers_give_alone_takes_a_time_that_no_cap_tells(work: WarmWork, terms: OriginTerms) -> None:
    found = forecast(work, terms)

    assert (found.origin_bytes, found.origin_requests, found.seconds) == (0, 0, None)
    unknown = "nothing from the source, because peers have all of it, duration unknown until a rate is measured"
    assert found.message == unknown + (", about 0.00 EUR" if terms is PRICED else "")


def test_what_peers_give_alone_takes_as_long_as_the_node_that_lacks_most() -> None:
    found = forecast(WarmWork(1000, 10, (1000, 400, 0), peers=True), OriginTerms(node_rate=10.0))

    assert found.message == "nothing from the source, because peers have all of it, about 1m40s"


def test_a_warm_dataset_takes_nothing() -> None:
    found = forecast(WarmWork(1000, 10, (1000, 1000)), OriginTerms(node_rate=5.0, price_per_gb=1.0, currency="EUR"))

    assert (found.origin_bytes, found.origin_requests, found.seconds, found.cost) == (0, 0, 0, "0.00 EUR")
    assert found.message == "nothing is left to fetch"


@pytest.mark.parametrize(
    ("terms", "seconds"),
    [
        (OriginTerms(), None),
        (OriginTerms(bytes_per_second=100.0), 20),  # two nodes need 1000 each
        (OriginTerms(bytes_per_second=100.0, requests_per_second=0.5), 40),
        (OriginTerms(bytes_per_second=100.0, requests_per_second=0.5, node_rate=10.0), 100),
    ],
)
def test_the_slowest_known_rate_decides_the_time(terms: OriginTerms, seconds: int | None) -> None:
    assert forecast(WarmWork(1000, 10, (0, 0)), terms).seconds == seconds


def test_the_sentence_is_that_of_the_documentation() -> None:
    terms = OriginTerms(5 * 10**8, price_per_gb=0.09, price_per_1000_requests=0.0004, currency="USD")

    found = forecast(WarmWork(10**12, 1_200_000, (0,)), terms)

    text = "931.3 GiB from the source in about 1,400,000 requests, about 33m20s, about 90.53 USD"
    assert found.message == text
    assert (
        f"vision/imagenet: {text}." in (Path(__file__).resolve().parents[4] / "docs" / "guides/origins.md").read_text()
    )


def test_a_time_for_which_nothing_is_known_is_not_made_up() -> None:
    assert forecast(WarmWork(1000, 1, (0,))).message.endswith("duration unknown until a rate is measured")


@settings(max_examples=50)
@given(SIZES, st.integers(1, 10**7), st.lists(SIZES, min_size=1, max_size=5), RATES)
def test_peers_and_rates_only_make_it_less(size: int, files: int, here: list[int], rate: float) -> None:
    slow, fast = OriginTerms(bytes_per_second=rate), OriginTerms(bytes_per_second=2 * rate)
    alone, shared = (forecast(WarmWork(size, files, here, peers=peers), slow) for peers in (False, True))
    faster = forecast(WarmWork(size, files, here), fast)

    assert shared.origin_bytes <= alone.origin_bytes
    assert shared.origin_requests <= alone.origin_requests
    assert (faster.seconds or 0) <= (alone.seconds or 0)

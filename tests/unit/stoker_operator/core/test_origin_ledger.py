"""What all nodes may ask of all capped origins, by what they say."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from stoker_api.nodecache import NodeCache
from stoker_api.origin import OriginShare
from stoker_api.times import format_time
from stoker_operator.core.origin_division import CONFIRM, to_share
from stoker_operator.core.origin_ledger import OriginLedger, OriginShares
from stoker_operator.core.origin_policy import OriginPolicy
from stoker_operator.core.origin_slowdown import CALM

NOW = 1_800_000_000.0
BUCKET, ENDPOINT = "https://minio:9000/data", "https://minio:9000"
ALL = frozenset({BUCKET, ENDPOINT, "*"})


def policy(**changes: Any) -> OriginPolicy:
    row = {"endpoint": "https://MINIO:9000/", "bucket": "data", "bytesPerSecond": "1G", "requestsPerSecond": 1000}
    return OriginPolicy.model_validate({"caps": [row | changes]})


def node_cache(name: str, told: tuple[OriginShare, ...] = (), *, known: bool = True, **row: Any) -> NodeCache:
    """Make a NodeCache; with a ``row`` about the bucket."""
    status = {"observedGeneration": 2 if known else 1, "origins": [{"name": BUCKET} | row] if row else []}
    spec = {"origins": [share.wire() for share in told]}
    return NodeCache.model_validate({"metadata": {"name": name, "generation": 2}, "spec": spec, "status": status})


def caches(*some: NodeCache) -> Mapping[str, NodeCache]:
    return {cache.metadata.name: cache for cache in some}


def settle(ledger: OriginLedger, rows: Mapping[str, dict[str, Any]], now: float) -> OriginShares:
    """Let all nodes say ``rows``, be told of what follows, and say that they know."""
    shares = ledger.update(caches(*(node_cache(name, **row) for name, row in rows.items())), now)
    for step in range(1, 4):
        some = (node_cache(name, shares.rows(name, ALL), **row) for name, row in rows.items())
        shares = ledger.update(caches(*some), now + step)
    return shares


def test_without_caps_nobody_is_told_anything() -> None:
    shares = settle(OriginLedger(OriginPolicy()), {"a": {"fetching": True}}, NOW)

    assert shares.rows("a", ALL) == ()


def test_who_fetches_has_nine_tenths_and_the_others_what_they_may_begin_with() -> None:
    shares = settle(OriginLedger(policy()), {"a": {"fetching": True}, "b": {}}, NOW)

    assert shares.rows("a", ALL) == (to_share(BUCKET, (900_000_000, 900_000), (40_000_000, 40_000)),)
    assert shares.rows("b", ALL) == (to_share(BUCKET, (40_000_000, 40_000), (40_000_000, 40_000)),)


def test_nodes_without_a_source_there_are_told_nothing_of_it() -> None:
    shares = settle(OriginLedger(policy()), {"a": {"fetching": True}}, NOW)

    assert shares.rows("a", frozenset({"s3://other", "s3://", "*"})) == ()


def test_an_endpoint_and_all_together_are_capped_beside_a_bucket() -> None:
    rows = {"caps": [{"endpoint": "https://minio:9000", "requestsPerSecond": 10}], "total": {"bytesPerSecond": "1M"}}
    ledger = OriginLedger(OriginPolicy.model_validate(rows))

    shares = settle(ledger, {"a": {"fetching": True}, "b": {"fetching": True}}, NOW)

    assert shares.rows("b", ALL) == (
        to_share("*", (450_000, None), (40_000, None)),
        to_share(ENDPOINT, (None, 4500), (None, 400)),
    )


def test_who_fetches_knows_what_it_may_begin_with_when_that_is_another() -> None:
    ledger, few = OriginLedger(policy()), {"a": {"fetching": True}, "b": {}}
    settle(ledger, few, NOW)
    shares = settle(ledger, few | {"c": {}, "d": {}}, NOW + 10)

    assert shares.rows("a", ALL) == (to_share(BUCKET, (900_000_000, 900_000), (20_000_000, 20_000)),)


def test_nothing_new_is_the_same_object() -> None:
    ledger = OriginLedger(policy())
    settle(ledger, {"a": {"fetching": True}}, NOW)
    same = caches(node_cache("a", fetching=True))
    first = ledger.update(same, NOW + 10)

    assert ledger.update(same, NOW + 11) is first


def test_a_slowdown_at_one_node_is_everybodys_and_passes() -> None:
    ledger = OriginLedger(OriginPolicy())
    calm = {name: {"fetching": True, "bytesPerSecond": 100_000, "milliRequestsPerSecond": 50_000} for name in "ab"}
    settle(ledger, calm, NOW)
    told = calm | {"a": calm["a"] | {"throttledAt": format_time(NOW + 20)}}

    shares = settle(ledger, told, NOW + 20)

    assert shares.slowed == {BUCKET}
    each = OriginShare(name=BUCKET, bytes_per_second=70_000, milli_requests_per_second=35_000)
    assert (shares.rows("a", ALL), shares.rows("b", ALL)) == ((each,), (each,))
    now = NOW + 30
    while shares.slowed and now < NOW + 600:
        now += CALM
        shares = settle(ledger, told, now)
    assert now < NOW + 300
    assert shares.rows("a", ALL) == ()
    assert not ledger.update(caches(node_cache("a", **told["a"])), now + 100).slowed


def test_a_slowdown_lowers_a_cap_that_is_above_what_the_bucket_takes() -> None:
    ledger = OriginLedger(policy())
    row = {"fetching": True, "bytesPerSecond": 100_000, "milliRequestsPerSecond": 50_000}

    shares = settle(ledger, {"a": row | {"throttledAt": format_time(NOW)}}, NOW)

    assert shares.rows("a", ALL)[0].bytes_per_second == 63_000  # 0.9 of 0.7
    assert ledger.slowdowns == 1


def test_a_slowdown_counts_whatever_the_nodes_clock_says_but_not_one_that_an_earlier_leader_answered() -> None:
    ledger = OriginLedger(OriginPolicy())
    row: dict[str, Any] = {"fetching": True, "bytesPerSecond": 100_000}
    told = row | {"throttledAt": format_time(NOW - 1000)}

    assert not ledger.update(caches(node_cache("a", **told), node_cache("b", **row)), NOW).slowed
    assert ledger.update(caches(node_cache("a", **told), node_cache("b", **told)), NOW + 1).slowed == {BUCKET}


def test_a_share_that_a_node_cache_names_no_more_is_free_a_minute_later() -> None:
    ledger, own = OriginLedger(policy()), {"a": {"fetching": True}}
    told = settle(ledger, own, NOW).rows("a", ALL)
    ledger.update(caches(node_cache("a", told, fetching=False)), NOW + 10)  # nobody needs it, and it is still told

    ledger.update(caches(node_cache("a", known=False)), NOW + 20)
    ledger.update(caches(node_cache("a", known=False)), NOW + 20 + CONFIRM)

    assert ledger.figures()[0].bytes == 0


def test_a_node_that_is_gone_gives_its_share_to_the_others() -> None:
    ledger = OriginLedger(policy())
    settle(ledger, {"a": {"fetching": True}, "b": {"fetching": True}}, NOW)

    shares = settle(ledger, {"a": {"fetching": True}}, NOW + 10)

    assert shares.rows("a", ALL)[0].bytes_per_second == 900_000_000


def test_writes_are_bounded_when_a_thousand_nodes_are_told_to_slow_down() -> None:
    ledger = OriginLedger(OriginPolicy())
    row: dict[str, Any] = {"fetching": True, "bytesPerSecond": 1000, "milliRequestsPerSecond": 1000}
    names = [f"n{number}" for number in range(1000)]
    ledger.update(caches(*(node_cache(name, **row) for name in names)), NOW)
    slow = caches(*(node_cache(name, **row, throttledAt=format_time(NOW + 1)) for name in names))

    told = [len(ledger.update(slow, NOW + 1 + second).by_node) for second in range(5)]

    assert told[0] == 80
    assert all(later - earlier <= 40 for earlier, later in pairwise(told))
    assert told[-1] == 240


def test_a_herd_is_given_equal_shares_within_half_a_minute_and_never_more_than_the_cap() -> None:
    ledger, names = OriginLedger(policy()), [f"n{number}" for number in range(500)]
    ledger.update(caches(*(node_cache(name) for name in names)), NOW)
    told: dict[str, tuple[OriginShare, ...]] = {}

    for second in range(30):
        said = caches(*(node_cache(name, told.get(name, ()), fetching=True) for name in names))
        shares = ledger.update(said, NOW + 1 + second)
        told = {name: shares.rows(name, ALL) for name in names}
        assert sum(rows[0].bytes_per_second or 0 for rows in told.values()) <= 10**9

    assert len(set(told.values())) == 1
    assert told["n0"][0].bytes_per_second == 900_000_000 // 528  # the level of 500 nodes


def test_of_a_node_that_makes_up_names_only_the_last_are_remembered() -> None:
    ledger = OriginLedger(OriginPolicy())

    def say(turn: int, now: float) -> int:
        rows = [{"name": f"s3://made-up-{turn}-{at}", "throttledAt": format_time(NOW)} for at in range(64)]
        ledger.update(caches(NodeCache.model_validate({"metadata": {"name": "a"}, "status": {"origins": rows}})), now)
        return ledger.slowdowns

    counts = [say(turn, NOW + 20 * turn) for turn in (0, 0, 1, 2, 3, 4)]

    assert counts == [64, 64, 128, 192, 256, 320]
    assert say(4, NOW + 200) == 320
    assert say(0, NOW + 220) == 384

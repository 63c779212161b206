"""The limits of all nodes at all capped origins, from the reports of nodes."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from stoker_api.datasets.origin import OriginShare
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import format_time
from stoker_operator.core.origins.origin_division import CONFIRM, to_share
from stoker_operator.core.origins.origin_ledger import OriginLedger, OriginShares
from stoker_operator.core.origins.origin_policy import CALM, OriginPolicy

NOW = 1_800_000_000.0
BUCKET, ENDPOINT = "https://minio:9000/data", "https://minio:9000"
ALL = frozenset({BUCKET, ENDPOINT, "*"})


def policy(**changes: Any) -> OriginPolicy:
    row = {"endpoint": "https://MINIO:9000/", "bucket": "data", "bytesPerSecond": "1G", "requestsPerSecond": 1000}
    return OriginPolicy.model_validate({"caps": [row | changes]})


def node_cache(name: str, told: tuple[OriginShare, ...] = (), *, known: bool = True, **row: Any) -> NodeCache:
    """Make a NodeCache, with an optional ``row`` about the bucket."""
    status = {"observedGeneration": 2 if known else 1, "origins": [{"name": BUCKET} | row] if row else []}
    source = {"uri": "s3://data/", "endpoint": ENDPOINT}
    given = [{"namespace": "n", "name": "d", "uid": "d", "source": source}] if row else []
    spec = {"origins": [share.wire() for share in told], "datasets": given}
    return NodeCache.model_validate({"metadata": {"name": name, "generation": 2}, "spec": spec, "status": status})


def confirmed(cache: NodeCache, limits: tuple[OriginShare, ...]) -> NodeCache:
    """Return the NodeCache with other limits, without parsing it again."""
    return cache.model_copy(update={"spec": cache.spec.model_copy(update={"origins": limits})})


def caches(*some: NodeCache) -> Mapping[str, NodeCache]:
    return {cache.metadata.name: cache for cache in some}


def settle(ledger: OriginLedger, rows: Mapping[str, dict[str, Any]], now: float) -> OriginShares:
    """Let all nodes report ``rows``, receive their limits, and confirm them."""
    shares = ledger.update(caches(*(node_cache(name, **row) for name, row in rows.items())), now)
    for step in range(1, 4):
        some = (node_cache(name, shares.rows(name, ALL), **row) for name, row in rows.items())
        shares = ledger.update(caches(*some), now + step)
    return shares


def test_nodes_have_no_limits_without_caps() -> None:
    shares = settle(OriginLedger(OriginPolicy()), {"a": {"fetching": True}}, NOW)

    assert shares.rows("a", ALL) == ()


def test_a_fetching_node_has_nine_tenths_and_idle_nodes_their_initial_share() -> None:
    shares = settle(OriginLedger(policy()), {"a": {"fetching": True}, "b": {}}, NOW)

    assert shares.rows("a", ALL) == (to_share(BUCKET, (900_000_000, 900_000), (40_000_000, 40_000)),)
    assert shares.rows("b", ALL) == (to_share(BUCKET, (40_000_000, 40_000), (40_000_000, 40_000)),)


def test_a_node_has_no_limits_at_an_unused_bucket() -> None:
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


def test_a_fetching_node_gets_a_changed_initial_share() -> None:
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


def test_a_slowdown_at_one_node_slows_all_nodes_for_a_while() -> None:
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


def test_a_slowdown_lowers_a_cap_above_the_rate_of_the_bucket() -> None:
    ledger = OriginLedger(policy())
    row = {"fetching": True, "bytesPerSecond": 100_000, "milliRequestsPerSecond": 50_000}

    shares = settle(ledger, {"a": row | {"throttledAt": format_time(NOW)}}, NOW)

    assert shares.rows("a", ALL)[0].bytes_per_second == 63_000  # 0.9 of 0.7
    assert ledger.slowdowns == 1


def test_a_slowdown_counts_at_any_clock_of_the_node_unless_an_earlier_leader_handled_it() -> None:
    ledger = OriginLedger(OriginPolicy())
    row: dict[str, Any] = {"fetching": True, "bytesPerSecond": 100_000}
    told = row | {"throttledAt": format_time(NOW - 1000)}

    assert not ledger.update(caches(node_cache("a", **told), node_cache("b", **row)), NOW).slowed
    assert ledger.update(caches(node_cache("a", **told), node_cache("b", **told)), NOW + 1).slowed == {BUCKET}


def test_a_share_removed_from_a_node_cache_is_free_a_minute_later() -> None:
    ledger, own = OriginLedger(policy()), {"a": {"fetching": True}}
    told = settle(ledger, own, NOW).rows("a", ALL)
    ledger.update(caches(node_cache("a", told, fetching=False)), NOW + 10)  # no need, but still in the spec

    ledger.update(caches(node_cache("a", known=False)), NOW + 20)
    ledger.update(caches(node_cache("a", known=False)), NOW + 20 + CONFIRM)

    assert ledger.figures()[0].bytes == 0


def test_a_removed_node_leaves_its_share_to_the_rest() -> None:
    ledger = OriginLedger(policy())
    settle(ledger, {"a": {"fetching": True}, "b": {"fetching": True}}, NOW)

    shares = settle(ledger, {"a": {"fetching": True}}, NOW + 10)

    assert shares.rows("a", ALL)[0].bytes_per_second == 900_000_000


def test_writes_are_bounded_when_a_thousand_nodes_slow_down() -> None:
    ledger = OriginLedger(OriginPolicy())
    row: dict[str, Any] = {"fetching": True, "bytesPerSecond": 1000, "milliRequestsPerSecond": 1000}
    names = [f"n{number}" for number in range(1000)]
    ledger.update(caches(*(node_cache(name, **row) for name in names)), NOW)
    slow = caches(*(node_cache(name, **row, throttledAt=format_time(NOW + 1)) for name in names))

    told = [len(ledger.update(slow, NOW + 1 + second).by_node) for second in range(5)]

    assert told[0] == 80
    assert all(later - earlier <= 40 for earlier, later in pairwise(told))
    assert told[-1] == 240


def test_a_herd_gets_equal_shares_of_the_cap_within_half_a_minute() -> None:
    ledger, names = OriginLedger(policy()), [f"n{number}" for number in range(500)]
    ledger.update(caches(*(node_cache(name) for name in names)), NOW)
    reports = caches(*(node_cache(name, fetching=True) for name in names))
    limits: dict[str, tuple[OriginShare, ...]] = {}

    for second in range(30):
        shares = ledger.update(
            {name: confirmed(cache, limits.get(name, ())) for name, cache in reports.items()}, NOW + 1 + second
        )
        limits = {name: shares.rows(name, ALL) for name in names}
        assert sum(rows[0].bytes_per_second or 0 for rows in limits.values()) <= 10**9

    assert len(set(limits.values())) == 1
    assert limits["n0"][0].bytes_per_second == 900_000_000 // 528  # the level of 500 nodes


def test_a_node_slows_no_bucket_without_its_datasets() -> None:
    ledger, rows = OriginLedger(OriginPolicy()), [{"name": "s3://other", "throttledAt": format_time(NOW)}]
    cache = node_cache("a", fetching=True)
    origins = NodeCache.model_validate({"metadata": {"name": "a"}, "status": {"origins": rows}}).status.origins
    liar = cache.model_copy(update={"status": cache.status.model_copy(update={"origins": origins})})

    assert ledger.update(caches(liar), NOW).slowed == frozenset()


def test_only_the_last_buckets_of_a_node_are_remembered() -> None:
    ledger = OriginLedger(OriginPolicy())

    def say(turn: int, now: float) -> int:
        buckets = [f"s3://bucket-{turn}-{at}" for at in range(64)]
        rows = [{"name": bucket, "throttledAt": format_time(NOW)} for bucket in buckets]
        given = [{"namespace": "n", "name": one, "uid": one, "source": {"uri": f"{one}/"}} for one in buckets]
        raw = {"metadata": {"name": "a"}, "spec": {"datasets": given}, "status": {"origins": rows}}
        ledger.update(caches(NodeCache.model_validate(raw)), now)
        return ledger.slowdowns

    counts = [say(turn, NOW + 20 * turn) for turn in (0, 0, 1, 2, 3, 4)]

    assert counts == [64, 64, 128, 192, 256, 320]
    assert say(4, NOW + 200) == 320
    assert say(0, NOW + 220) == 384

"""The spec of a NodeCache stays below its budget in bytes, and namespaces share it."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_api.meta import stored_size
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_api.node_caches.nodecache import NodeCacheSpec
from stoker_operator.core.plans.entry_room import MOST_SPEC, _most_of, entry_size, fitting
from stoker_operator.core.plans.plan import settle_node
from tests.unit.stoker_operator.builders import make_cache, make_node, make_view

LETTERS = st.sampled_from(["a", "<", "\x01", "\U0001f600", "é", '"', "\\"])
TEXTS = st.lists(st.tuples(LETTERS, st.integers(0, 60)).map(lambda it: it[0] * it[1]), max_size=8).map(tuple)
NUMBER = st.integers(0, 2**63 - 1)


def entry(uid: str = "u", texts: tuple[str, ...] = (), namespace: str = "vision", **fields: Any) -> NodeDataset:
    source = {"uri": "s3://bucket/", "include": texts, "exclude": texts}
    named = {"namespace": namespace, "name": "digits", "uid": uid, "source": source}
    return NodeDataset.model_validate(named | {"warm_paths": texts, "retain": texts} | fields)


def of_size(namespace: str, number: int, size: int, letter: str = "a") -> NodeDataset:
    """Return an entry whose texts have ``size`` characters."""
    return entry(f"{namespace}-{number}", (letter * (size // 4),), namespace)


def stored(entries: list[NodeDataset]) -> int:
    """Return the bytes of a spec with these entries, as the API server stores it."""
    return stored_size(NodeCacheSpec(datasets=tuple(entries)).wire())


@settings(max_examples=50)
@given(
    texts=TEXTS,
    fields=st.fixed_dictionaries(
        {},
        optional={
            "version": LETTERS.map(lambda letter: letter * 64),
            "manifest_hosts": TEXTS,
            "allowed_namespaces": TEXTS,
            "peers": TEXTS,
            "pages": LETTERS.map(lambda letter: letter * 60),
            "listing_id": LETTERS.map(lambda letter: letter * 60),
            "refused": LETTERS.map(lambda letter: letter * 1000),
            "groups": st.builds(
                lambda links, first: {"links": links, "distances": [2] * 23, "first": first}, TEXTS, st.just(9)
            ),
            "older": TEXTS.map(lambda hosts: [{"version": host, "manifest_hosts": hosts} for host in hosts]),
            "tuning": LETTERS.map(lambda letter: {"profile": letter * 253, "template": letter * 63}),
            "bytes_per_second": NUMBER,
            "quota_bytes": NUMBER,
            "memory_bytes": NUMBER,
            "warm_by": st.just("2026-11-29T05:00:00.000000Z"),
        },
    ),
)
def test_the_bound_is_never_less_than_the_size(texts: tuple[str, ...], fields: dict[str, Any]) -> None:
    one = entry(texts=texts, **fields)
    assert _most_of(one) >= entry_size(one)


def test_what_only_the_bound_takes_for_too_much_fits() -> None:
    entries = [entry(f"u{number}", ("a" * 900 + "ä",) * 50) for number in range(3)]
    assert sum(map(_most_of, entries)) > MOST_SPEC > sum(map(entry_size, entries))
    assert fitting(entries, None) == entries


@settings(max_examples=12)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]), st.integers(1, 400), st.sampled_from([0, 400, 40_000, 200_000]), LETTERS
        ),
        max_size=4,
    ),
    told=st.booleans(),
)
def test_entries_times_texts_times_characters_stay_within_a_spec(
    rows: list[tuple[str, int, int, str]], told: bool
) -> None:
    most = 1_000_000  # total characters, more than MOST_SPEC
    entries = [
        of_size(f"{namespace}{place}", number, size, letter)
        for place, (namespace, count, size, letter) in enumerate(rows)
        for number in range(min(count, most // max(size, 400)))
    ]
    before = [one.model_copy(update={"generation": 7}) for one in entries] if told else []
    cache = make_cache("n1", *((one, None) for one in fitting(before, None)))
    fit = fitting(entries, cache)
    assert stored(fit) <= MOST_SPEC + 100
    assert fitting(entries, make_cache("n1", *((one, None) for one in fit))) == fit


def test_one_namespace_displaces_nothing_of_another_that_stays_within_its_share() -> None:
    victim = [of_size("victim", number, 100_000) for number in range(3)]
    crowd = [of_size("evil", number, 400) for number in range(1000)]
    for told in (crowd, victim, []):  # regardless of which namespace came first
        cache = make_cache("n1", *((one, None) for one in fitting(told, None)))
        fit = fitting([*crowd, *victim], cache)
        assert [one for one in fit if one.namespace == "victim"] == victim


def test_unused_room_of_a_namespace_goes_to_the_rest() -> None:
    small, large = [of_size("small", 0, 400)], [of_size("large", number, 100_000) for number in range(6)]
    assert len(fitting([*small, *large, of_size("large", 7, 200_000)], None)) == 7


def test_a_row_that_grew_beyond_the_room_stays_as_it_was() -> None:
    first = [of_size("vision", number, 100_000) for number in range(6)]
    cache = make_cache("n1", *((one, None) for one in first))
    grown = of_size("vision", 0, 300_000)
    assert fitting([grown, *first[1:]], cache) == [*first[1:], first[0]]


def test_a_row_that_gives_way_to_another_namespace_stays_on_the_disk() -> None:
    large = [of_size("large", number, 100_000) for number in range(6)]
    small = [of_size("small", number, 100_000) for number in range(3)]
    cache = make_cache("n1", *((one, _on_disk(one)) for one in large))
    for _ in range(3):  # passes
        write = settle_node(make_view(make_node("n1"), cache), "n1", [*large, *small], {}).write
        if write is not None:
            cache = cache.model_copy(update={"spec": write.spec})
    there = {one.uid for one in cache.spec.datasets}
    gone = {one.uid for one in large} - there
    assert gone
    assert (set(cache.spec.keep), {one.uid for one in small} - there) == (gone, set())


def _on_disk(one: NodeDataset) -> NodeDatasetStatus:
    return NodeDatasetStatus(namespace=one.namespace, name=one.name, uid=one.uid, version="1" * 64)

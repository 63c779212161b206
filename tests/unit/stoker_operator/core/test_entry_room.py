"""How much a NodeCache has room for is worked out exactly only where a bound says that it may matter."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_api.node_dataset import NodeDataset
from stoker_operator.core.entry_room import MOST_SPEC, _most_of, entry_size, fitting

TEXTS = st.lists(st.text(max_size=30), max_size=8).map(tuple)


def entry(uid: str = "u", texts: tuple[str, ...] = ()) -> NodeDataset:
    source = {"uri": "s3://bucket/", "include": texts, "exclude": texts}
    named = {"namespace": "vision", "name": "digits", "uid": uid, "source": source}
    return NodeDataset.model_validate(named | {"warm_paths": texts, "retain": texts})


@given(TEXTS)
def test_the_bound_is_never_less_than_the_size(texts: tuple[str, ...]) -> None:
    assert _most_of(entry(texts=texts)) >= entry_size(entry(texts=texts))


def test_what_only_the_bound_takes_for_too_much_fits() -> None:
    entries = [entry(f"u{number}", ("a" * 1000,) * 50) for number in range(3)]
    assert sum(map(_most_of, entries)) > MOST_SPEC > sum(map(entry_size, entries))
    assert fitting(entries, None) == entries

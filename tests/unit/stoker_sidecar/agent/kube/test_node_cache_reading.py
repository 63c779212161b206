"""A NodeCache that an operator or a sidecar of another release wrote."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stoker_api.datasets.dataset_source import Source
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_sidecar.agent.kube.node_cache import read_node_cache

SOURCE = {"uri": "s3://bucket/"}
GOOD = {"namespace": "n", "name": "good", "uid": "u1", "source": SOURCE}
LATER = {"namespace": "n", "name": "later", "uid": "u2", "source": SOURCE, "observe": "Sampled"}
BEFORE = NodeDataset(namespace="n", name="later", uid="u2", source=Source(uri="s3://bucket/"))


def node_cache(*datasets: Any, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "node"}, "spec": {"datasets": list(datasets)} | spec}


def test_a_dataset_that_cannot_be_read_costs_only_itself_and_stays_on_the_disk() -> None:
    cache = read_node_cache(node_cache(GOOD, LATER), {}).cache
    assert ([row.name for row in cache.spec.datasets], cache.spec.keep) == (["good"], ("u2",))


def test_a_dataset_that_could_be_read_before_stays_as_it_was() -> None:
    cache = read_node_cache(node_cache(LATER, GOOD), {"u2": BEFORE}).cache
    assert (set(cache.spec.datasets) >= {BEFORE}, cache.spec.keep) == (True, ())


def test_nothing_is_removed_while_a_dataset_has_no_readable_uid() -> None:
    assert read_node_cache(node_cache(GOOD, {"uid": 7}), {}).cache.spec.keep_unlisted


@pytest.mark.parametrize("spec", [{"keep": 5}, {"keep": [5]}, {"keepUnlisted": "perhaps"}, {"datasets": 5}])
def test_what_decides_about_removal_must_be_readable(spec: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read_node_cache(node_cache(GOOD, **spec), {})


def test_a_status_of_another_release_does_not_hide_the_plan() -> None:
    raw = node_cache(GOOD) | {"status": {"modes": ["erofs", "native"], "mounts": [{"later": 1}], "memory": 5}}
    cache = read_node_cache(raw, {}).cache
    assert ([row.name for row in cache.spec.datasets], cache.status.modes) == (["good"], ("native",))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
FIELDS = sorted(set(NodeDataset.__struct_encode_fields__) - {"uid"})


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(FIELDS), JSON), max_size=8))
def test_no_value_of_a_dataset_has_another_one_or_itself_removed(changes: list[tuple[int, str, Any]]) -> None:
    rows = [copy.deepcopy(GOOD) | {"name": f"d{number}", "uid": f"u{number}"} for number in range(4)]
    for number, field, value in changes:
        rows[number][field] = value
    cache, _ = read_node_cache(node_cache(*rows), {})
    planned = {row.uid for row in cache.spec.datasets}
    assert planned | set(cache.spec.keep) == {"u0", "u1", "u2", "u3"}
    assert planned >= {f"u{number}" for number in range(4)} - {f"u{number}" for number, _, _ in changes}

"""What `stoker status` and `stoker nodes` say of memory, of nodes by name, and of CPUs."""

from typing import Any

from stoker_api.dataset import Dataset
from stoker_api.nodecache import NodeCache
from stoker_cli import rows


def _condition(kind: str, status: str, message: str) -> dict[str, Any]:
    since = {"reason": "R", "lastTransitionTime": "2026-11-23T00:00:00Z"}
    return {"type": kind, "status": status, "message": message} | since


def test_what_is_in_memory_and_which_names_are_none_are_lines_of_a_dataset() -> None:
    conditions = [
        _condition("NodesFound", "False", "z is no node"),
        _condition("MemoryPinned", "True", "all of it"),
        _condition("Warm", "True", "w"),
    ]
    dataset = Dataset.model_validate(
        {
            "metadata": {"name": "d", "namespace": "n"},
            "spec": {"source": {"uri": "s3://bucket/"}},
            "status": {"conditions": conditions},
        }
    )
    assert rows.memory_lines(dataset) == ["NodesFound: z is no node", "MemoryPinned: all of it"]


def _node(name: str, **status: Any) -> NodeCache:
    return NodeCache.model_validate({"metadata": {"name": name}, "status": status})


def test_a_node_that_lets_memory_be_pinned_or_lacks_cpus_has_a_line() -> None:
    caches = [
        _node("a", memory={"allowedBytes": 2**30, "pinnedBytes": 2**29}, cpus="CPUs 0-3, all that can be used"),
        _node("b", cpus="CPUs 1, of those that were asked for; CPUs 9 cannot be used here"),
        _node("c"),
    ]
    assert rows.memory_of_nodes(caches) == [
        "a: 512.0 MiB of 1.0 GiB of its memory are pinned",
        "b: CPUs 1, of those that were asked for; CPUs 9 cannot be used here",
    ]

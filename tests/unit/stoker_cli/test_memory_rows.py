"""Memory, named nodes and CPUs in `stoker status` and `stoker nodes`."""

from stoker_api.datasets.dataset import Dataset
from stoker_cli import rows
from tests.unit.stoker_cli.builders import condition, node_cache


def test_memory_and_unknown_nodes_are_lines_of_a_dataset() -> None:
    conditions = [
        condition("NodesFound", "False", "z is no node"),
        condition("MemoryPinned", "True", "all of it"),
        condition("Warm", "True", "w"),
    ]
    dataset = Dataset.model_validate(
        {
            "metadata": {"name": "d", "namespace": "n"},
            "spec": {"source": {"uri": "s3://bucket/"}},
            "status": {"conditions": conditions},
        }
    )
    assert rows.memory_lines(dataset) == ["NodesFound: z is no node", "MemoryPinned: all of it"]


def test_a_node_with_pinned_memory_or_unusable_cpus_has_a_line() -> None:
    caches = [
        node_cache("a", memory={"allowedBytes": 2**30, "pinnedBytes": 2**29}, cpus="CPUs 0-3, all that can be used"),
        node_cache("b", cpus="CPUs 1, of those that were asked for; CPUs 9 cannot be used here"),
        node_cache("c"),
    ]
    assert rows.memory_of_nodes(caches) == [
        "a: 512.0 MiB of 1.0 GiB of memory pinned",
        "b: CPUs 1, of those that were asked for; CPUs 9 cannot be used here",
    ]

"""A node that joins warms itself, where the Dataset wants it."""

from e2e.support.bucket import files
from e2e.support.world import Home, World, node_rows


def test_a_new_node_warms_a_dataset_that_wants_all_nodes_and_no_other(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(files(20, 10_000))
    home.dataset("everywhere", bucket, cache={"replicas": "all"})
    home.dataset("once", bucket, cache={"replicas": 1})
    home.ready("everywhere")
    (holder,) = node_rows(home.ready("once"))
    node = world.cluster.add_node()
    try:
        grown = home.until("everywhere", lambda it: node_rows(it).get(node, {}).get("phase") == "Warm", 180)
        assert grown["status"]["warmNodes"] == "3/3"
        assert list(node_rows(world.get("dataset", "once", home.namespace))) == [holder]
    finally:
        world.cluster.remove_node(node)
    shrunk = home.until("everywhere", lambda it: node not in node_rows(it))
    assert shrunk["status"]["warmNodes"] == "2/2"

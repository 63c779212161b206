"""A Dataset is warmed on the node that the CLI names, into memory too; names that are no nodes are refused."""

import pytest

from e2e.cluster import CommandFailedError
from e2e.support.world import Home, World, condition

FILES = {f"{n:02}.bin": bytes([n]) * 10_000 for n in range(20)}


def test_the_cli_warms_named_nodes_and_their_page_cache(world: World, home: Home) -> None:
    bucket = home.bucket()
    bucket.put(FILES)
    home.dataset("pictures", bucket, cache={"replicas": "all"}, warm={"policy": "Manual"})
    home.ready("pictures")
    options = ("--nodes", min(world.cluster.nodes), "--pages", "--wait", "--timeout", "2m", "-n", home.namespace)
    world.stoker("warm", "pictures", *options)
    warm = home.ready("pictures")
    assert warm["status"]["warmNodes"] == "1/1"
    assert {condition(warm, "NodesFound"), condition(warm, "PagesWarm")} == {"True"}

    with pytest.raises(CommandFailedError, match="no node that holds data is named no-such-node"):
        world.stoker("warm", "pictures", "--nodes", "no-such-node", "-n", home.namespace)

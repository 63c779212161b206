"""Every node reports the confinement of its processes. hostile/test_taken_node_reports.py takes a node."""

from e2e.support.world import World


def test_every_node_says_how_its_processes_are_held_to_their_files(world: World) -> None:
    for node in world.cluster.nodes:
        said = world.get("nodecache", node)["status"]["confinement"]
        assert said.startswith("Landlock, version "), said

"""A Dataset with a file in its source that lists the paths to warm, on a real API server."""

from typing import Any

from stoker_api.node_caches.nodecache import NodeCache
from stoker_kube.resources import DATASETS, NODE_CACHES
from tests.integration.stoker_operator.conftest import World

NAME = "lists/mine.txt"


async def test_a_node_is_told_the_name_of_the_list_and_what_says_paths_takes_its_place(world: World) -> None:
    node = (await world.add_node()).node
    await world.add_dataset(warm={"list": NAME})
    await world.until(NODE_CACHES, node, lambda raw: _told(raw) == (f"/{NAME}",))
    patch = {"spec": {"warm": {"list": None, "paths": ["train/"]}}}
    await world.kube.patch(DATASETS, "digits", patch, world.namespace)
    await world.until(NODE_CACHES, node, lambda raw: _told(raw) == ("train/",))


def _told(raw: dict[str, Any]) -> tuple[str, ...]:
    return next((one.warm_paths for one in NodeCache.model_validate(raw).spec.datasets if one.name == "digits"), ())

"""A Dataset of which a file of its own lists what is warmed, on a real API server."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from stoker_api.nodecache import NodeCache
from stoker_api.warm_list import LIST_HINT, LIST_OR_PATHS
from stoker_kube.errors import Invalid
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


@pytest.mark.parametrize(
    ("warm", "sentence"),
    [
        ({"list": NAME, "paths": ["train/"]}, LIST_OR_PATHS),
        *(({"list": name}, LIST_HINT) for name in ("/a", "a/", "a//b", "../a", "a/./b")),
        ({"list": ""}, "should be at least 1 chars long"),
        ({"list": "a" * 1025}, "may not be more than 1024"),
    ],
)
async def test_what_cannot_be_a_list_is_refused_with_a_sentence(
    world: World, warm: Mapping[str, Any], sentence: str
) -> None:
    body = {"source": {"uri": "s3://bucket/"}, "warm": warm}
    with pytest.raises(Invalid, match=re.escape(sentence)):
        await world.kube.create(DATASETS, {"metadata": {"name": "wrong", "namespace": world.namespace}, "spec": body})

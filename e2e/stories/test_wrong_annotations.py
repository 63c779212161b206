"""A pod that can never work is refused when it is made, with the sentence that mends it."""

import pytest

from e2e.support import manifests
from e2e.support.bucket import files
from e2e.support.world import Home, World


@pytest.fixture(scope="module")
def home(shared_home: Home) -> Home:
    bucket = shared_home.bucket()
    bucket.put(files(1, 10))
    for name in ("train", "other"):
        shared_home.dataset(name, bucket)
        shared_home.ready(name)
    return shared_home


@pytest.mark.parametrize(
    ("datasets", "parts"),
    [
        ("train=/data", ["train=/data"]),
        ("train:data", ["data", "absolute"]),
        ("trian:/data", ["trian", "kubectl get datasets -n"]),
        ("train:/data, other:/data", ["/data"]),
        ("train:/taken", ["/taken"]),
    ],
    ids=["does-not-parse", "relative-path", "no-such-dataset", "one-path-twice", "path-taken"],
)
def test_the_refusal_names_what_is_wrong(world: World, home: Home, datasets: str, parts: list[str]) -> None:
    pod = manifests.pod(home.namespace, "wrong", datasets, "true")
    pod["spec"]["volumes"] = [{"name": "own", "emptyDir": {}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": "/taken"}]
    refusal = world.refused(pod)
    assert [part for part in parts if part not in refusal] == []


@pytest.mark.parametrize(
    ("annotations", "part"),
    [({"scheduling": "Always"}, "Always"), ({"max_wait": "soon"}, "soon"), ({"containers": "trainer"}, "trainer")],
)
def test_a_refining_annotation_that_is_wrong_is_quoted(
    world: World, home: Home, annotations: dict[str, str], part: str
) -> None:
    assert part in world.refused(manifests.reading_pod(home.namespace, "wrong", "train", **annotations))
